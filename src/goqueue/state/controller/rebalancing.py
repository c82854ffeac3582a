"""Which replicas should go where: to empty a broker, or to give all brokers a like share.

A plan is a list of moves, made from one look at the cluster; nothing is changed by it. No broker
gets more than there is room for on it, and no replica moves without need: to empty a broker only
its own do, and for an even share each move makes the fullest of two brokers less full. For an even
share no partition stands in fewer racks than before; to empty a broker, in as many as the others
allow, for its rack may have had no other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from goqueue.model.names import NodeId, TopicPartition
from goqueue.state.controller.placement import Candidate, Replicas

# As near to the mean as is worth copying for: a tenth of a broker's load.
TOLERANCE: Final = 0.1
# A plan that nobody can read is no plan. The next one goes on from there.
MOVES_MAX: Final = 1_000


class Weighed(NamedTuple):
    """A partition with all that belongs to it. `bytes_per_s` is what producers write."""

    name: TopicPartition
    replicas: Replicas
    size_bytes: int = 0
    bytes_per_s: float = 0.0


class PlannedMove(NamedTuple):
    name: TopicPartition
    before: Replicas
    target: Replicas
    # Of one copy; so much goes over the network for each broker that is added.
    size_bytes: int

    @property
    def added(self) -> Replicas:
        return tuple(node for node in self.target if node not in self.before)


class Plan(NamedTuple):
    """`stuck` have a replica that no other broker can take."""

    moves: Sequence[PlannedMove]
    stuck: Sequence[TopicPartition] = ()


@dataclass(slots=True)
class _Shares:
    """What each broker carries: a third of it for each of bytes, traffic and number."""

    weights: dict[TopicPartition, float]
    racks: Mapping[NodeId, str | None]
    room: dict[NodeId, int]
    replicas: dict[TopicPartition, Replicas] = field(default_factory=dict)
    carried: defaultdict[NodeId, float] = field(default_factory=lambda: defaultdict(float))

    def spread(self, replicas: Replicas) -> int:
        """In how many racks they stand; a broker that names none stands in one of its own."""
        return len({self.racks.get(node) or node for node in replicas})

    def take(self, name: TopicPartition, source: NodeId, target: NodeId) -> None:
        weight = self.weights[name]
        self.replicas[name] = _with(self.replicas[name], source, target)
        self.carried[source] -= weight
        self.carried[target] += weight
        self.room[target] -= 1
        if source in self.room:
            self.room[source] += 1

    def may_go(self, name: TopicPartition, source: NodeId, target: NodeId) -> bool:
        now = self.replicas[name]
        if target in now or self.room[target] <= 0:
            return False
        return self.spread(_with(now, source, target)) >= self.spread(now)


def drained(
    partitions: Sequence[Weighed],
    node: NodeId,
    candidates: Sequence[Candidate],
    room: Mapping[NodeId, int],
) -> Plan:
    """Every replica of one broker goes to another, the largest first. `candidates` may get
    replicas, as many as there is `room` for."""
    others = [each for each in candidates if each.node != node and each.is_up]
    shares = _shares(partitions, others, room)
    stuck = []
    for name, *_ in sorted(partitions, key=lambda each: (-shares.weights[each.name], each.name)):
        if node not in shares.replicas[name]:
            continue
        fitting = [
            each.node
            for each in others
            if each.node not in shares.replicas[name] and shares.room[each.node] > 0
        ]
        if not fitting:
            stuck.append(name)
            continue
        target = min(
            fitting,
            key=lambda other: (
                -shares.spread(_with(shares.replicas[name], node, other)),
                shares.carried[other],
                other,
            ),
        )
        shares.take(name, node, target)
    return Plan(_moves(partitions, shares), stuck)


def rebalanced(
    partitions: Sequence[Weighed], candidates: Sequence[Candidate], room: Mapping[NodeId, int]
) -> Plan:
    """Replicas go from brokers that carry much to such that carry little, until no broker is far
    from the mean, or nothing helps."""
    nodes = [each for each in candidates if each.is_up]
    if len(nodes) < 2:
        return Plan(())
    shares = _shares(partitions, nodes, room)
    mean = sum(shares.carried[each.node] for each in nodes) / len(nodes)
    on: dict[NodeId, set[TopicPartition]] = {each.node: set() for each in nodes}
    for name, replicas in shares.replicas.items():
        for node in replicas:
            if node in on:
                on[node].add(name)
    for _ in range(MOVES_MAX):
        step = _next_step(shares, on, mean)
        if step is None:
            break
        name, source, target = step
        shares.take(name, source, target)
        on[source].discard(name)
        on[target].add(name)
    return Plan(_moves(partitions, shares))


def _next_step(
    shares: _Shares, on: Mapping[NodeId, set[TopicPartition]], mean: float
) -> tuple[TopicPartition, NodeId, NodeId] | None:
    """The replica that evens out the fullest broker and the emptiest, or the next ones to those."""
    by_load = sorted(on, key=lambda node: (shares.carried[node], node))
    for source in reversed(by_load):
        for target in by_load:
            gap = shares.carried[source] - shares.carried[target]
            if gap <= TOLERANCE * mean:
                break
            # As much as the gap would only change places; very little is not worth a move.
            fitting = [
                name
                for name in on[source]
                if TOLERANCE * mean / 4 < shares.weights[name] < gap
                and shares.may_go(name, source, target)
            ]
            if fitting:
                best = min(fitting, key=lambda n: (abs(shares.weights[n] - gap / 2), n))
                return best, source, target
    return None


def _shares(
    partitions: Sequence[Weighed], candidates: Sequence[Candidate], room: Mapping[NodeId, int]
) -> _Shares:
    size = sum(each.size_bytes * len(each.replicas) for each in partitions) or 1
    traffic = sum(each.bytes_per_s * len(each.replicas) for each in partitions) or 1.0
    number = sum(len(each.replicas) for each in partitions) or 1
    weights = {
        each.name: each.size_bytes / size + each.bytes_per_s / traffic + 1 / number
        for each in partitions
    }
    shares = _Shares(
        weights,
        {each.node: each.rack for each in candidates},
        {each.node: room.get(each.node, 0) for each in candidates},
    )
    for each in partitions:
        shares.replicas[each.name] = each.replicas
        for node in each.replicas:
            shares.carried[node] += weights[each.name]
    return shares


def _moves(partitions: Sequence[Weighed], shares: _Shares) -> list[PlannedMove]:
    return [
        PlannedMove(each.name, each.replicas, target, each.size_bytes)
        for each in partitions
        if (target := shares.replicas[each.name]) != each.replicas
    ]


def _with(replicas: Replicas, source: NodeId, target: NodeId) -> Replicas:
    """One in another's place: who comes first leads in peace, and so stays as it is shared."""
    return tuple(target if node == source else node for node in replicas)
