"""A mapping in parts is a mapping, and tells what differs between two of them."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from goqueue.state.parted_map import PartedMap

# Few names, so that edits meet.
NAMES = st.sampled_from([f"name-{number}" for number in range(20)])
EDITS = st.lists(st.dictionaries(NAMES, st.none() | st.integers(0, 3), max_size=8), max_size=8)


def edited(before: Mapping[str, int], edits: Mapping[str, int | None]) -> dict[str, int]:
    after = {name: value for name, value in before.items() if name not in edits}
    return after | {name: value for name, value in edits.items() if value is not None}


@given(EDITS)
def test_it_holds_what_a_dict_would(changes: list[dict[str, int | None]]) -> None:
    parted, plain = PartedMap[int](), dict[str, int]()
    for edits in changes:
        before, parted, plain = dict(parted), parted.changed(edits), edited(plain, edits)
        assert dict(before) == before
        assert dict(parted) == plain
        assert len(parted) == len(plain)
        assert parted == plain
        assert parted == PartedMap(plain)
        assert all(parted.get(name) == plain.get(name) for name in edits)


@given(EDITS, EDITS)
def test_differences(first: list[dict[str, int | None]], then: list[dict[str, int | None]]) -> None:
    before = PartedMap[int]()
    for edits in first:
        before = before.changed(edits)
    after = before
    for edits in then:
        after = after.changed(edits)
    told = {name: (old, new) for name, old, new in after.differences(before)}
    assert told == {
        name: (before.get(name), after.get(name))
        for name in {*before, *after}
        if before.get(name) != after.get(name)
    }


def test_parts_that_did_not_change_are_shared() -> None:
    """A hundred thousand entries are not copied for one."""
    before = PartedMap({f"name-{number}": number for number in range(10_000)})
    after = before.changed({"name-7": None})
    shared = sum(one is other for one, other in zip(before._parts, after._parts, strict=True))
    assert shared == len(before._parts) - 1
