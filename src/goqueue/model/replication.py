"""What the metadata says of one partition: a value that is compared and set as a whole."""

from typing import NamedTuple

import msgspec

from goqueue.model.names import NO_LEADER, NodeId


class Member(NamedTuple):
    """A broker since it registered last. After a restart it is another member: what the one
    before had in memory may be gone (KIP-903)."""

    node: NodeId
    broker_epoch: int


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

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def quorum(self) -> int:
        """How many must be in sync for anything to be committed."""
        return min(self.min_in_sync, len(self.replicas))
