"""Whether a follower has been told of every deletion in a compacted log.

Compaction removes a tombstone when it has been there for `delete.retention.ms`. A follower that was
away for longer, and still has what the tombstone deleted, would never hear of it, and bring it back
as a leader. So who asks for an offset below which tombstones are gone begins anew at the start of
the log, where nothing is left of what they deleted.
"""

from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.storage.compaction.log_compaction import LogCompaction


class DeletionsTold:
    """Of one leadership: a new leader makes those begin anew that are on the way just then."""

    def __init__(self, compaction: LogCompaction) -> None:
        self._compaction = compaction
        # Who copies the log from its start on, and since when.
        self._fresh: dict[NodeId, tuple[int, int]] = {}

    def may_go_on(self, follower: Member, offset: int, *, log_start: int, now_ms: int) -> bool:
        gone_before = self._compaction.tombstones_gone_before
        if offset >= gone_before:
            self._fresh.pop(follower.node, None)
            return True
        if offset <= log_start:
            self._fresh[follower.node] = (follower.broker_epoch, now_ms)
            return True
        broker_epoch, since_ms = self._fresh.get(follower.node, (-1, -1))
        # What was clean when it began held nothing any more of what those tombstones deleted.
        return (
            broker_epoch == follower.broker_epoch
            and self._compaction.clean_before(since_ms) >= gone_before
        )
