"""The server-side assignors: complete, even, sticky."""

from itertools import combinations
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.assignment import NOTHING, Assignment, common, count
from goqueue.state.groups.assignors import ASSIGNORS, MemberSpec, range_, uniform
from tests.unit.state.groups.group_world import partitions, topic_id

A, B, C = (topic_id(name) for name in "abc")


def spec(
    *subscribed: UUID, had: Assignment = NOTHING, instance_id: str | None = None
) -> MemberSpec:
    return MemberSpec(instance_id=instance_id, subscribed=frozenset(subscribed), target=had)


def test_uniform_moves_only_what_a_newcomer_must_get() -> None:
    had = partitions(a=range(6))
    got = uniform({"old": spec(A, had=had), "new": spec(A)}, {A: range(6)})
    assert got == {"old": partitions(a=[0, 1, 2]), "new": partitions(a=[3, 4, 5])}


def test_uniform_gives_the_partitions_of_the_gone_to_the_others() -> None:
    one, two = partitions(a=[0, 3]), partitions(a=[1, 4])
    got = uniform({"one": spec(A, had=one), "two": spec(A, had=two)}, {A: range(6)})
    assert got == {"one": partitions(a=[0, 2, 3]), "two": partitions(a=[1, 4, 5])}


def test_uniform_drops_topics_and_partitions_that_are_gone() -> None:
    got = uniform({"m": spec(A, had=partitions(a=[0, 9], b=[1]))}, {A: range(2)})
    assert got == {"m": partitions(a=[0, 1])}


def test_uniform_honours_different_subscriptions() -> None:
    got = uniform({"both": spec(A, B), "only-a": spec(A)}, {A: range(2), B: range(2)})
    assert got == {"both": partitions(b=[0, 1]), "only-a": partitions(a=[0, 1])}


def test_uniform_levels_uneven_subscriptions_by_moving() -> None:
    had = partitions(a=[0, 1], b=[0, 1])
    got = uniform({"both": spec(A, B, had=had), "only-a": spec(A)}, {A: range(2), B: range(2)})
    assert got == {"both": partitions(b=[0, 1]), "only-a": partitions(a=[0, 1])}


def test_range_gives_neighbours_and_the_same_run_in_equal_topics() -> None:
    members = {"m1": spec(A, B), "m2": spec(A, B), "m3": spec(A)}
    got = range_(members, {A: range(7), B: range(4)})
    assert got == {
        "m1": partitions(a=[0, 1, 2], b=[0, 1]),
        "m2": partitions(a=[3, 4], b=[2, 3]),
        "m3": partitions(a=[5, 6]),
    }


def test_range_keeps_a_static_member_in_its_place() -> None:
    before = range_({"x": spec(A, instance_id="1"), "m": spec(A, instance_id="2")}, {A: range(4)})
    after = range_({"z": spec(A, instance_id="1"), "m": spec(A, instance_id="2")}, {A: range(4)})
    assert before["x"] == after["z"]
    assert before["m"] == after["m"]


def test_members_without_subscription_get_nothing() -> None:
    for assignor in ASSIGNORS.values():
        assert assignor({"m": spec()}, {}) == {"m": {}}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, MemberSpec], dict[UUID, list[int]]]:
    # Some partitions may be withheld, so not all numbers are there.
    readable = {t: sorted(draw(st.sets(st.integers(0, 7)))) for t in (A, B, C)}
    same = draw(st.booleans())
    everything = draw(st.frozensets(st.sampled_from([A, B, C])))
    members: dict[str, MemberSpec] = {}
    free = {t: list(range(8)) for t in (A, B, C)}
    for number in range(draw(st.integers(1, 6))):
        had: dict[UUID, frozenset[int]] = {}
        for topic in (A, B, C):
            taken = draw(st.lists(st.sampled_from(free[topic]), unique=True, max_size=4)) if free[
                topic
            ] else []  # fmt: skip
            if taken:
                had[topic] = frozenset(taken)
                free[topic] = [p for p in free[topic] if p not in taken]
        subscribed = everything if same else draw(st.frozensets(st.sampled_from([A, B, C])))
        members[f"m{number}"] = MemberSpec(instance_id=None, subscribed=subscribed, target=had)
    wanted = frozenset().union(*(m.subscribed for m in members.values()))
    return members, {t: n for t, n in readable.items() if t in wanted}


def check_complete(
    members: dict[str, MemberSpec], readable: dict[UUID, list[int]], got: dict[str, Assignment]
) -> None:
    assert got.keys() == members.keys()
    given_out = [(t, p) for held in got.values() for t, numbers in held.items() for p in numbers]
    assert sorted(given_out) == [(t, p) for t in sorted(readable) for p in readable[t]]
    assert all(t in members[m].subscribed for m, held in got.items() for t in held)


@given(worlds())
def test_every_partition_has_one_subscribed_owner(
    world: tuple[dict[str, MemberSpec], dict[UUID, list[int]]],
) -> None:
    members, readable = world
    for assignor in ASSIGNORS.values():
        check_complete(members, readable, assignor(members, readable))


@given(worlds())
def test_uniform_is_even_and_settled(
    world: tuple[dict[str, MemberSpec], dict[UUID, list[int]]],
) -> None:
    members, readable = world
    got = uniform(members, readable)
    loads = {m: count(held) for m, held in got.items()}
    for one, other in combinations(members, 2):
        for fuller, emptier in ((one, other), (other, one)):
            could_move = got[fuller].keys() & members[emptier].subscribed
            assert not could_move or loads[fuller] - loads[emptier] <= 1
    again = {
        m: MemberSpec(instance_id=None, subscribed=s.subscribed, target=got[m])
        for m, s in members.items()
    }
    assert uniform(again, readable) == got


@given(worlds(), st.integers(1, 40))
def test_uniform_moves_no_more_than_needed_when_all_subscribe_alike(
    world: tuple[dict[str, MemberSpec], dict[UUID, list[int]]], partition_count: int
) -> None:
    members = {m: spec(A) for m in world[0]}
    first = uniform(members, {A: range(partition_count)})
    grown = {m: spec(A, had=first[m]) for m in members} | {"newcomer": spec(A)}
    second = uniform(grown, {A: range(partition_count)})
    kept = sum(count(common(first[m], second[m])) for m in members)
    assert kept == partition_count - count(second["newcomer"])
