"""The leader's part of the classic protocol: every strategy, read back as members read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.consumer_protocol import read_assignment, write_subscription
from goqueue.model.groups.messages import JoinedMember
from goqueue.state.groups.leader_assignment import STRATEGIES, assign, partition_counts
from goqueue.state.groups.topics import TopicInfo, Topics
from tests.unit.state.groups.group_world import topic_id

Owned = dict[str, list[int]]
Assigned = dict[str, dict[str, tuple[int, ...]]]


def topics(**counts: int) -> Topics:
    return Topics(TopicInfo(name, topic_id(name), count) for name, count in counts.items())


def member(
    member_id: str,
    *names: str,
    owned: Owned | None = None,
    generation: int = 1,
    instance_id: str | None = None,
) -> JoinedMember:
    metadata = write_subscription(3, names, owned, generation=generation)
    return JoinedMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)


def assigned(strategy: str, members: list[JoinedMember], known: Topics) -> Assigned:
    return {
        member_id: dict(read_assignment(data).partitions)
        for member_id, data in assign(strategy, members, known).items()
    }


def test_range_gives_neighbours() -> None:
    got = assigned("range", [member("a", "t"), member("b", "t")], topics(t=5))
    assert got == {"a": {"t": (0, 1, 2)}, "b": {"t": (3, 4)}}


def test_round_robin_deals_over_topics_and_passes_who_does_not_subscribe() -> None:
    known = topics(t=3, u=3)
    got = assigned("roundrobin", [member("a", "t", "u"), member("b", "t", "u")], known)
    assert sorted(len(p) for m in got.values() for p in m.values()) == [1, 1, 2, 2]
    assert [sum(map(len, m.values())) for m in got.values()] == [3, 3]
    got = assigned("roundrobin", [member("a", "t", "u"), member("b", "u")], known)
    assert got["a"]["t"] == (0, 1, 2)
    assert "t" not in got["b"]


def test_sticky_moves_only_what_a_newcomer_must_get() -> None:
    members = [member("old", "t", owned={"t": [0, 1, 2, 3]}), member("new", "t")]
    assert assigned("sticky", members, topics(t=4)) == {
        "old": {"t": (0, 1)},
        "new": {"t": (2, 3)},
    }


def test_cooperative_gives_a_moving_partition_to_nobody_until_it_is_given_up() -> None:
    members = [member("old", "t", owned={"t": [0, 1, 2, 3]}), member("new", "t")]
    first = assigned("cooperative-sticky", members, topics(t=4))
    assert first == {"old": {"t": (0, 1)}, "new": {}}

    members = [member("old", "t", owned={"t": [0, 1]}, generation=2), member("new", "t")]
    second = assigned("cooperative-sticky", members, topics(t=4))
    assert second == {"old": {"t": (0, 1)}, "new": {"t": (2, 3)}}


def test_of_two_who_claim_a_partition_the_later_generation_is_right() -> None:
    members = [
        member("zombie", "t", owned={"t": [0, 1]}, generation=4),
        member("owner", "t", owned={"t": [0, 1]}, generation=5),
    ]
    got = assigned("cooperative-sticky", members, topics(t=2))
    assert got["zombie"] == {}
    assert len(got["owner"]["t"]) == 1


def test_a_claim_of_two_in_one_generation_is_nobodys() -> None:
    members = [member(m, "t", owned={"t": [0]}, generation=4) for m in ("a", "b")]
    assert assigned("cooperative-sticky", members, topics(t=1)) == {"a": {"t": (0,)}, "b": {}}


def test_unreadable_metadata_costs_only_its_member() -> None:
    broken = JoinedMember(member_id="broken", group_instance_id=None, metadata=b"\x00")
    got = assigned("range", [broken, member("a", "t")], topics(t=2))
    assert got == {"broken": {}, "a": {"t": (0, 1)}}


def test_topics_that_are_not_there_are_left_out() -> None:
    members = [member("a", "gone", "t", owned={"gone": [0]})]
    assert assigned("sticky", members, topics(t=1)) == {"a": {"t": (0,)}}
    assert partition_counts(members, topics(t=1)) == {"t": 1}


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    counts=st.dictionaries(st.sampled_from("tuv"), st.integers(0, 5)),
    subscriptions=st.lists(st.sets(st.sampled_from("tuv"), min_size=1), min_size=1, max_size=5),
)
def test_every_partition_with_subscribers_has_one_reader(
    strategy: str, counts: dict[str, int], subscriptions: list[set[str]]
) -> None:
    members = [member(f"m{i}", *sorted(names)) for i, names in enumerate(subscriptions)]
    got = assigned(strategy, members, topics(**counts))
    read = [(t, p) for m in got.values() for t, numbers in m.items() for p in numbers]
    wanted = {t for names in subscriptions for t in names}
    assert sorted(read) == sorted((t, p) for t in wanted for p in range(counts.get(t, 0)))
    for i, names in enumerate(subscriptions):
        assert set(got[f"m{i}"]) <= names
