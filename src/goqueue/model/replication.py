"""What the metadata says of one partition: a value that is compared and set as a whole."""

from typing import NamedTuple

import msgspec

from goqueue.model.names import NO_LEADER, NodeId


class Member(NamedTuple):
    """A broker since it registered last. After a restart it is another member: what the one
    before had in memory may be gone (KIP-903)."""

    node: NodeId
    broker_epoch: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """On its way from some brokers to others. It is part of the partition's own key: so it begins,
    ends and is taken back in one write each, and whoever dies in between leaves nothing half done.
    """

    before: tuple[NodeId, ...]
    target: tuple[NodeId, ...]

    @property
    def adding(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.target if node not in self.before)

    @property
    def removing(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.before if node not in self.target)


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """`eligible` (KIP-966) have everything committed although they left the in-sync set: nothing
    was committed since it became smaller than `min_in_sync`.

    `doubtful` came back without what was in their memory since the in-sync set is smaller than
    that. Should the others be lost, too, the longest log of all of them is the best that is left.
    """

    leader: NodeId
    leader_epoch: int
    replicas: tuple[NodeId, ...]
    in_sync: tuple[Member, ...]
    eligible: tuple[Member, ...] = ()
    doubtful: tuple[NodeId, ...] = ()
    min_in_sync: int = 1
    # Every append is on disk before it counts, so a power cut takes nothing committed.
    is_flushed: bool = False
    # While it moves, `replicas` are those before, and behind them those that are added.
    move: Move | None = None

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def quorum(self) -> int:
        """How many must be in sync for anything to be committed. Who is being added does not make
        it more: nobody should wait for a copy that has only begun."""
        return min(self.min_in_sync, len(self.replicas if self.move is None else self.move.before))

    @property
    def adding(self) -> tuple[NodeId, ...]:
        return () if self.move is None else self.move.adding

    @property
    def removing(self) -> tuple[NodeId, ...]:
        return () if self.move is None else self.move.removing

    @property
    def wanted(self) -> tuple[NodeId, ...]:
        """The replicas that it has when nothing moves any more."""
        return self.replicas if self.move is None else self.move.target
