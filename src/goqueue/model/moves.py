"""Replicas that go from broker to broker: what is asked for, how far it is, what is planned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.model.calls import Unanswered
from goqueue.model.names import NodeId
from goqueue.model.topics import PartitionView


class CopyProgress(NamedTuple):
    """A replica that is added. Numbers are None where the brokers concerned did not tell."""

    node: NodeId
    is_in_sync: bool
    bytes_left: int | None
    messages_left: int | None


class PartitionMove(NamedTuple):
    """A partition on its way; `copies` are of those that are added."""

    topic: str
    view: PartitionView
    copies: Sequence[CopyProgress]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """`rate_bytes` None: as fast as it goes."""

    moves: Sequence[PartitionMove]
    is_paused: bool
    rate_bytes: int | None
    unanswered: Sequence[Unanswered] = ()


class MoveOfPlan(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[NodeId, ...]
    target: tuple[NodeId, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """`stuck` are partitions with a replica that no other broker can take. Sizes are without those
    of brokers that are `unanswered`."""

    moves: Sequence[MoveOfPlan]
    stuck: Sequence[tuple[str, int]]
    copied_bytes: int
    unanswered: Sequence[Unanswered] = ()
