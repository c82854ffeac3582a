"""Plans of moves: nothing is lost, racks and room are kept, and nothing moves without need."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.names import NodeId, topic_partition
from goqueue.state.controller.placement import Candidate
from goqueue.state.controller.rebalancing import Plan, Weighed, drained, rebalanced

RACKS = ("a", "b", "c", None)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Weighed], list[Candidate], dict[NodeId, int]]:
    count = draw(st.integers(2, 6))
    candidates = [
        Candidate(NodeId(i), draw(st.sampled_from(RACKS)), draw(st.integers(0, 9)) > 0)
        for i in range(count)
    ]
    partitions = []
    for index in range(draw(st.integers(0, 25))):
        factor = draw(st.integers(1, min(3, count)))
        nodes = draw(st.permutations([c.node for c in candidates]))[:factor]
        partitions.append(
            Weighed(
                topic_partition("t", index),
                tuple(nodes),
                draw(st.integers(0, 10_000)),
                float(draw(st.integers(0, 1_000))),
            )
        )
    room = {c.node: draw(st.integers(0, 30)) for c in candidates}
    return partitions, candidates, room


def spread(replicas: tuple[NodeId, ...], candidates: list[Candidate]) -> int:
    racks = {c.node: c.rack for c in candidates if c.is_up}
    return len({racks.get(node) or node for node in replicas})


def after(partitions: list[Weighed], plan: Plan) -> list[Weighed]:
    moved = {move.name: move.target for move in plan.moves}
    return [each._replace(replicas=moved.get(each.name, each.replicas)) for each in partitions]


def check(
    plan: Plan,
    partitions: list[Weighed],
    candidates: list[Candidate],
    room: dict[NodeId, int],
) -> None:
    up = {c.node for c in candidates if c.is_up}
    added: Counter[NodeId] = Counter()
    for move in plan.moves:
        assert move.before != move.target
        assert len(set(move.target)) == len(move.target) == len(move.before)
        assert set(move.added) <= up
        added.update(move.added)
        added.subtract(set(move.before) - set(move.target))
    assert all(added[node] <= room[node] for node in up)


@given(clusters(), st.integers(0, 5))
def test_a_drained_broker_is_empty(
    cluster: tuple[list[Weighed], list[Candidate], dict[NodeId, int]], number: int
) -> None:
    partitions, candidates, room = cluster
    node = NodeId(number % len(candidates))
    plan = drained(partitions, node, candidates, room)
    check(plan, partitions, candidates, room)
    for move in plan.moves:
        # One replica goes, and no other.
        assert set(move.before) - set(move.target) == {node}
        assert len(move.added) == 1
    left = {each.name for each in after(partitions, plan) if node in each.replicas}
    assert left == set(plan.stuck)


@given(clusters())
def test_a_rebalance_makes_nobody_carry_more_than_the_fullest_did(
    cluster: tuple[list[Weighed], list[Candidate], dict[NodeId, int]],
) -> None:
    partitions, candidates, room = cluster
    plan = rebalanced(partitions, candidates, room)
    check(plan, partitions, candidates, room)
    for move in plan.moves:
        assert spread(move.target, candidates) >= spread(move.before, candidates)
    up = [c.node for c in candidates if c.is_up]
    if plan.moves:
        assert fullest(after(partitions, plan), up) <= fullest(partitions, up) + 1e-9


def fullest(partitions: list[Weighed], nodes: list[NodeId]) -> float:
    size = sum(each.size_bytes * len(each.replicas) for each in partitions) or 1
    traffic = sum(each.bytes_per_s * len(each.replicas) for each in partitions) or 1.0
    number = sum(len(each.replicas) for each in partitions) or 1
    carried: dict[NodeId, float] = dict.fromkeys(nodes, 0.0)
    for each in partitions:
        for node in each.replicas:
            if node in carried:
                weight = each.size_bytes / size + each.bytes_per_s / traffic + 1 / number
                carried[node] += weight
    return max(carried.values(), default=0.0)


def even(partitions: int, nodes: int, factor: int = 3) -> list[Weighed]:
    return [
        Weighed(
            topic_partition("t", index),
            tuple(NodeId((index + i) % nodes) for i in range(factor)),
            1_000,
            10.0,
        )
        for index in range(partitions)
    ]


def test_a_cluster_that_is_even_stays_as_it_is() -> None:
    candidates = [Candidate(NodeId(i)) for i in range(4)]
    assert not rebalanced(even(16, 4), candidates, {c.node: 100 for c in candidates}).moves


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    candidates = [Candidate(NodeId(i)) for i in range(4)]
    partitions = even(12, 3)
    plan = rebalanced(partitions, candidates, {c.node: 100 for c in candidates})
    counts = Counter(node for each in after(partitions, plan) for node in each.replicas)
    assert max(counts.values()) - min(counts.values()) <= 1
    # 36 replicas on four brokers: nine of them go.
    assert sum(len(move.added) for move in plan.moves) == 9
    assert all(move.added == (NodeId(3),) for move in plan.moves)


def test_large_partitions_count_for_more() -> None:
    candidates = [Candidate(NodeId(i)) for i in range(2)]
    partitions = [
        Weighed(topic_partition("large", 0), (NodeId(0),), 1_000_000),
        Weighed(topic_partition("large", 1), (NodeId(0),), 1_000_000),
        *(Weighed(topic_partition("small", i), (NodeId(1),), 10) for i in range(2)),
    ]
    plan = rebalanced(partitions, candidates, {c.node: 100 for c in candidates})
    homes = {(each.name.topic, each.replicas) for each in after(partitions, plan)}
    assert len(homes) == 4  # One large and one small on each.
    assert len(plan.moves) == 2


def test_a_broker_that_is_down_or_full_gets_nothing() -> None:
    candidates = [Candidate(NodeId(0)), Candidate(NodeId(1), is_up=False), Candidate(NodeId(2))]
    partitions = [Weighed(topic_partition("t", i), (NodeId(0),), 10) for i in range(6)]
    plan = drained(partitions, NodeId(0), candidates, {NodeId(1): 9, NodeId(2): 2})
    assert [move.target for move in plan.moves] == [(NodeId(2),)] * 2
    assert len(plan.stuck) == 4
