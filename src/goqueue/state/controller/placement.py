"""Which brokers get the replicas of new partitions.

Within one topic leaders and replicas are spread as evenly as can be, whatever the brokers have
already: a topic's load falls on all of them. What they have decides between equals, so that many
topics of few partitions spread, too. Replicas of a partition stand in as many racks as there are.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from goqueue.model.names import NodeId

Replicas = tuple[NodeId, ...]


class Candidate(NamedTuple):
    """A broker that may get replicas. One that is down gets them only if there are too few others;
    its copy begins when it is back."""

    node: NodeId
    rack: str | None = None
    is_up: bool = True


@dataclass(slots=True)
class Load:
    """What brokers have: partitions they are the first replica of, and replicas of any kind."""

    leaders: Counter[NodeId] = field(default_factory=Counter)
    replicas: Counter[NodeId] = field(default_factory=Counter)
    # How often a node is the second replica where another is the first: it takes over from it.
    successors: Counter[tuple[NodeId, NodeId]] = field(default_factory=Counter)

    def add(self, replicas: Sequence[NodeId]) -> None:
        self.leaders[replicas[0]] += 1
        self.replicas.update(replicas)
        if len(replicas) > 1:
            self.successors[replicas[0], replicas[1]] += 1


def load_of(assignments: Iterable[Sequence[NodeId]]) -> Load:
    """Of what may be all partitions of a cluster: counting them all at once is quicker."""
    placed = [replicas for replicas in assignments if replicas]
    return Load(
        Counter([replicas[0] for replicas in placed]),
        Counter(chain.from_iterable(placed)),
        Counter([(replicas[0], replicas[1]) for replicas in placed if len(replicas) > 1]),
    )


def place(
    candidates: Sequence[Candidate],
    count: int,
    replication_factor: int,
    *,
    topic: Load,
    everything: Load,
) -> list[Replicas]:
    """The replicas of `count` partitions. `topic` is what its other partitions take up, and
    `everything` what all topics do. At least one candidate must be up, and `replication_factor`
    not above their number."""
    here = Load(topic.leaders.copy(), topic.replicas.copy(), topic.successors.copy())
    placed = []
    for _ in range(count):
        replicas = _replicas(candidates, replication_factor, here, everything)
        here.add(replicas)
        placed.append(replicas)
    return placed


def _replicas(
    candidates: Sequence[Candidate], replication_factor: int, here: Load, everything: Load
) -> Replicas:
    first = min(
        (candidate for candidate in candidates if candidate.is_up),
        key=lambda c: (
            here.leaders[c.node],
            here.replicas[c.node],
            everything.leaders[c.node],
            everything.replicas[c.node],
            c.node,
        ),
    )
    chosen = [first]
    racks = Counter(_rack(first))
    while len(chosen) < replication_factor:
        following = min(
            (candidate for candidate in candidates if candidate not in chosen),
            key=lambda c: (
                not c.is_up,
                sum(racks[rack] for rack in _rack(c)),
                here.replicas[c.node],
                here.successors[first.node, c.node],
                everything.replicas[c.node],
                c.node,
            ),
        )
        chosen.append(following)
        racks.update(_rack(following))
    # When the first one dies, the next in line that is in sync leads: not always the same.
    heirs = sorted(
        (candidate.node for candidate in chosen[1:]),
        key=lambda node: (here.successors[first.node, node], node),
    )
    return (first.node, *heirs)


def _rack(candidate: Candidate) -> tuple[str, ...]:
    """A broker that names no rack stands in one of its own."""
    return () if candidate.rack is None else (candidate.rack,)
