"""Replicas of new partitions: spread over brokers and racks, whatever is there already."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.names import NodeId
from goqueue.state.controller.placement import Candidate, Load, Replicas, load_of, place

A, B, C = (NodeId(i) for i in range(3))
NOTHING = Load()


def candidates(*racks: str | None) -> list[Candidate]:
    return [Candidate(NodeId(i), rack) for i, rack in enumerate(racks)]


def placed(
    brokers: list[Candidate],
    count: int,
    factor: int,
    *,
    topic: Load = NOTHING,
    everything: Load = NOTHING,
) -> list[Replicas]:
    return place(brokers, count, factor, topic=topic, everything=everything)


def spread(counts: Counter[NodeId], brokers: list[Candidate]) -> int:
    numbers = [counts[candidate.node] for candidate in brokers]
    return max(numbers) - min(numbers)


def test_three_partitions_on_three_brokers() -> None:
    assert placed(candidates(None, None, None), 3, 3) == [(A, B, C), (B, A, C), (C, A, B)]


def test_not_always_the_same_broker_takes_over() -> None:
    takes_over = {r[1] for r in placed(candidates(None, None, None), 6, 3) if r[0] == A}
    assert takes_over == {B, C}


def test_topics_of_one_partition_spread_over_the_brokers() -> None:
    made: list[Replicas] = []
    for _ in range(9):
        made += placed(candidates(None, None, None), 1, 1, everything=load_of(made))
    assert Counter(made) == {(A,): 3, (B,): 3, (C,): 3}


def test_a_grown_topic_goes_on_where_it_is_thin() -> None:
    grown = placed(candidates(None, None, None), 1, 1, topic=load_of([(A,), (B,)]))
    assert grown == [(C,)]


def test_a_new_broker_gets_its_share_of_a_topic_and_no_more() -> None:
    before = load_of([(A, B)] * 50)
    leaders = Counter(r[0] for r in placed(candidates(None, None, None), 6, 1, everything=before))
    assert leaders == {A: 2, B: 2, C: 2}


def test_a_broker_that_is_down_is_taken_only_where_others_are_too_few() -> None:
    brokers = [Candidate(A), Candidate(B), Candidate(C, is_up=False)]
    assert all(C not in replicas for replicas in placed(brokers, 10, 2))
    assert all(replicas[0] != C and C in replicas for replicas in placed(brokers, 10, 3))


brokers_with_racks = st.lists(
    st.none() | st.sampled_from(("r1", "r2", "r3")), min_size=1, max_size=9
).map(lambda racks: candidates(*racks))
sizes = st.integers(1, 40)


@given(st.data(), brokers_with_racks, sizes)
def test_replicas_are_distinct_and_in_as_many_racks_as_can_be(
    data: st.DataObject, brokers: list[Candidate], count: int
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    racks = {c.node: f"own {c.node}" if c.rack is None else c.rack for c in brokers}
    for replicas in placed(brokers, count, factor):
        assert len(set(replicas)) == len(replicas) == factor
        in_racks = Counter(racks[node] for node in replicas)
        assert len(in_racks) == min(factor, len(set(racks.values())))


@given(st.data(), brokers_with_racks, sizes, st.lists(st.integers(0, 8).map(NodeId), max_size=30))
def test_leaders_of_a_topic_are_spread_evenly(
    data: st.DataObject, brokers: list[Candidate], count: int, others: list[NodeId]
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    load = load_of([(node,) for node in others])
    made = placed(brokers, count, factor, everything=load)
    assert spread(load_of(made).leaders, brokers) <= 1


@given(st.data(), st.integers(1, 3), st.integers(1, 3), sizes)
def test_replicas_are_spread_evenly_where_racks_are_equal(
    data: st.DataObject, racks: int, size: int, count: int
) -> None:
    brokers = candidates(*(f"r{rack}" for _ in range(size) for rack in range(racks)))
    factor = data.draw(st.integers(1, len(brokers)))
    made = load_of(placed(brokers, count, factor))
    assert spread(made.leaders, brokers) <= 1
    assert spread(made.replicas, brokers) <= 2


@given(sizes, st.integers(2, 6))
def test_every_other_broker_takes_over_a_share(count: int, brokers: int) -> None:
    """Without racks, and with as many replicas as brokers."""
    made = load_of(placed(candidates(*[None] * brokers), count * brokers, brokers))
    for leader in range(brokers):
        shares = [made.successors[NodeId(leader), NodeId(n)] for n in range(brokers) if n != leader]
        assert max(shares) - min(shares) <= 1
