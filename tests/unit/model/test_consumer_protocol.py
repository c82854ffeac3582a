"""The consumer's messages inside the classic protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.consumer_protocol import (
    NAMES_MAX,
    MalformedProtocol,
    read_assignment,
    read_subscription,
    rename_assigned,
    rename_subscribed,
    write_assignment,
    write_subscription,
)

Names = st.text("abcé-", min_size=1, max_size=5)
Partitions = st.dictionaries(Names, st.lists(st.integers(0, 9), unique=True).map(tuple), max_size=3)


@given(st.integers(0, 3), st.lists(Names, max_size=3), Partitions, st.none() | Names)
def test_subscription_round_trip(
    version: int, topics: list[str], owned: dict[str, tuple[int, ...]], rack_id: str | None
) -> None:
    found = read_subscription(write_subscription(version, topics, owned, rack_id=rack_id))
    assert found.version == version
    assert found.topics == tuple(topics)
    assert found.owned == (owned if version >= 1 else {})
    assert found.rack_id == (rack_id if version >= 3 else None)


@given(st.integers(0, 3), Partitions)
def test_assignment_round_trip(version: int, partitions: dict[str, tuple[int, ...]]) -> None:
    found = read_assignment(write_assignment(version, partitions))
    assert found.partitions == {t: tuple(sorted(p)) for t, p in partitions.items()}
    assert found.user_data is None


def test_no_bytes_are_an_empty_assignment() -> None:
    assert read_assignment(b"").partitions == {}


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_read_but_never_worse(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except MalformedProtocol:
            continue


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x09"])
def test_an_array_larger_than_its_bytes_is_refused_before_it_is_read(size: bytes) -> None:
    with pytest.raises(MalformedProtocol, match="does not fit"):
        read_subscription(b"\0\1" + size + b"\0\1a")


def test_later_versions_may_append_fields() -> None:
    data = write_subscription(3, ["a"], {"a": [1]}, rack_id="r") + b"more"
    assert read_subscription(data).topics == ("a",)


@given(
    st.integers(0, 3),
    st.lists(Names, max_size=4),
    st.dictionaries(Names, st.lists(st.integers(0, 9), max_size=3), max_size=3),
    st.binary(max_size=20),
)
def test_renaming_topics_can_be_taken_back(
    version: int, topics: list[str], owned: dict[str, list[int]], more: bytes
) -> None:
    """Whatever follows what is known of the format stays as it is."""

    def inner(name: str) -> str:
        return f"acme@{name}"

    def local(name: str) -> str:
        return name.removeprefix("acme@")

    subscription = write_subscription(version, topics, owned) + more
    renamed = rename_subscribed(subscription, inner)
    assert read_subscription(renamed).topics == tuple(map(inner, topics))
    assert rename_subscribed(renamed, local) == subscription
    assignment = write_assignment(version, owned) + more
    renamed = rename_assigned(assignment, inner)
    assert set(read_assignment(renamed).partitions) == set(map(inner, owned))
    assert rename_assigned(renamed, local) == assignment


@given(st.binary(max_size=60))
def test_whatever_a_member_sends_comes_back_as_it_was(data: bytes) -> None:
    for rename in (rename_subscribed, rename_assigned):
        renamed = rename(data, lambda name: f"acme@{name}")
        assert rename(renamed, lambda name: name.removeprefix("acme@")) == data


def test_no_more_topics_are_read_than_a_request_may_name() -> None:
    """A member may send four megabytes: more than a million names, for which nobody else is
    served while they are read. What is not read is not renamed either."""
    most = write_subscription(1, ["a"] * NAMES_MAX)
    assert len(read_subscription(most).topics) == NAMES_MAX
    for data in (
        write_subscription(1, ["a"] * (NAMES_MAX + 1)),
        write_subscription(1, ["a"], {f"{number}": [0] for number in range(NAMES_MAX + 1)}),
    ):
        with pytest.raises(MalformedProtocol, match="20000"):
            read_subscription(data)
        assert rename_subscribed(data, str.upper) == data
    many = write_assignment(1, {f"{number}": [0] for number in range(NAMES_MAX + 1)})
    with pytest.raises(MalformedProtocol, match="20000"):
        read_assignment(many)
    assert rename_assigned(many, str.upper) == many
