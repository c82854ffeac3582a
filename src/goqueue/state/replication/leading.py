"""The leader of one partition under one epoch: what is committed, who is in sync.

The order of things that safety hangs on:

1. The high watermark is the least durable end over the in-sync set as it was read last, *and*
   over the set in a proposal whose fate is open. It moves only while the set as read has a quorum.
2. A proposal is open until it was refused, or a version of the partition newer than the one it
   compares was seen. An answer may be lost, and a request whose answer was lost may still come
   true much later, so that not even a read of the old version decides anything.
3. A follower's end is the offset it asks for, under this leader epoch and its own broker epoch.

A leader that was deposed and does not know it yet needs a fetch of this epoch by its successor to
commit anything, and the successor sends none after it accepted the next epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state.replication.in_sync import joined, without


class FetchVerdict(Enum):
    """What a leader thinks of a follower's fetch."""

    ACCEPTED = "accepted"
    # The follower restarted since: what it had then says nothing of what it has now.
    STALE_BROKER = "stale broker epoch"
    NOT_A_REPLICA = "not a replica"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Set the partition to `state` if it is still at `base_revision`, and this broker is still
    registered as it was, and `joining` (if any) is registered under that epoch."""

    state: PartitionState
    base_revision: int
    joining: Member | None = None


@dataclass(slots=True)
class _Progress:
    """How far one follower is. It was in step when it last asked for what was the end then."""

    broker_epoch: int
    end: int
    in_step_ms: int
    asked_ms: int
    leader_end_when_asked: int


class Leading:
    def __init__(
        self,
        me: Member,
        state: PartitionState,
        revision: int,
        *,
        high_watermark: int,
        log_end: int,
        durable_end: int,
        lag_max_ms: int,
        now_ms: int,
    ) -> None:
        """`log_end` is where this epoch starts: the caller noted that beside the log."""
        self.me = me
        self.state = state
        self.revision = revision
        self.high_watermark = high_watermark
        self.epoch_start = log_end
        self.proposal: Proposal | None = None
        self._log_end = log_end
        self._durable_end = durable_end
        self._lag_max_ms = lag_max_ms
        self._since_ms = now_ms
        self._progress: dict[NodeId, _Progress] = {}
        self._advance()

    @property
    def may_commit(self) -> bool:
        return len(self.state.in_sync) >= self.state.quorum

    @property
    def knows_its_end(self) -> bool:
        """Whether everything that an earlier leader committed is known to be (KIP-207)."""
        return self.high_watermark >= self.epoch_start

    @property
    def lag(self) -> int:
        """The most messages that a follower lacks, of those that have asked for some. Copies that
        a move adds lack many for a while, as they should."""
        added = self.state.adding
        ends = [progress.end for node, progress in self._progress.items() if node not in added]
        return max(0, self._log_end - min(ends)) if ends else 0

    @property
    def added_ends(self) -> list[int]:
        """Where copies end that a move adds, and that are not in sync yet; 0 of those that have not
        asked."""
        in_sync = {member.node for member in self.state.in_sync}
        copied = (self._progress.get(node) for node in self.state.adding if node not in in_sync)
        return [0 if progress is None else max(0, progress.end) for progress in copied]

    def counts(self, member: Member) -> bool:
        """Whether commits wait for it. They do as soon as it is proposed: whoever holds a follower
        back until then must not go on with that while the answer is on its way."""
        return member in self.state.in_sync or (
            self.proposal is not None and member in self.proposal.state.in_sync
        )

    # --- what the log and the followers say -----------------------------------------------

    def appended(self, log_end: int, durable_end: int) -> None:
        """The log grew, or more of it is on disk; where every append is flushed, only the
        flushed part is durable."""
        self._log_end = log_end
        self._durable_end = durable_end
        self._advance()

    def fetched(self, follower: Member, offset: int, now_ms: int) -> FetchVerdict:
        """A follower asks for `offset`: everything before is as durable there as it must be."""
        if follower.node not in self.state.replicas:
            return FetchVerdict.NOT_A_REPLICA
        progress = self._progress.get(follower.node)
        if progress is not None and follower.broker_epoch < progress.broker_epoch:
            return FetchVerdict.STALE_BROKER
        if progress is None or follower.broker_epoch > progress.broker_epoch:
            progress = _Progress(follower.broker_epoch, -1, self._since_ms, now_ms, self._log_end)
            self._progress[follower.node] = progress
        if offset >= self._log_end:
            progress.in_step_ms = now_ms
        elif offset >= progress.leader_end_when_asked:
            progress.in_step_ms = max(progress.in_step_ms, progress.asked_ms)
        progress.end = max(progress.end, offset)
        progress.asked_ms = now_ms
        progress.leader_end_when_asked = self._log_end
        self._advance()
        return FetchVerdict.ACCEPTED

    # --- changing the in-sync set ---------------------------------------------------------

    def propose(
        self, now_ms: int, may_join: Callable[[Member], bool] = lambda _: True
    ) -> Proposal | None:
        """The change to ask the store for now; an open one again until its fate is known.

        Asking twice is safe: both compare the same version, so at most one comes true. `may_join`
        leaves out who would be refused, as far as the metadata is known here.
        """
        if self.proposal is None and not self._all_are_in_step(now_ms):
            self.proposal = self._next_proposal(now_ms, may_join)
        return self.proposal

    def refused(self, proposal: Proposal) -> None:
        """The store compared and refused. What it compares only moves on, so neither this request
        nor a copy of it that is still on its way can come true any more."""
        if self.proposal == proposal:
            self.proposal = None
            self._advance()

    def observe(self, state: PartitionState, revision: int) -> bool:
        """The partition as the store has it; False where this broker leads it no longer.

        Anything newer than what an open proposal compares decides its fate: it has come true on
        the way, or it never will.
        """
        if revision <= self.revision:
            return True
        if state.leader != self.me.node or state.leader_epoch != self.state.leader_epoch:
            return False
        self.state = state
        self.revision = revision
        if self.proposal is not None and revision > self.proposal.base_revision:
            self.proposal = None
        self._advance()
        return True

    def _all_are_in_step(self, now_ms: int) -> bool:
        """Nobody can join or has fallen behind: so it is nearly always, of thousands of partitions
        that are looked at again and again."""
        in_sync, progress_of, end = self.state.in_sync, self._progress, self._log_end
        if len(progress_of) >= len(in_sync):
            return False
        for member in in_sync:
            if member != self.me:
                progress = progress_of.get(member.node)
                if (
                    progress is None
                    or progress.end < end
                    or progress.broker_epoch != member.broker_epoch
                ):
                    return False
                progress.in_step_ms = now_ms
        return True

    def _next_proposal(self, now_ms: int, may_join: Callable[[Member], bool]) -> Proposal | None:
        for progress in self._progress.values():
            # There is nothing to ask for, so it is not asked again: as long as nothing is appended,
            # it is in step.
            if progress.end >= self._log_end:
                progress.in_step_ms = now_ms
        slow = {
            member.node
            for member in self.state.in_sync
            if member != self.me and now_ms - self._in_step_ms(member) > self._lag_max_ms
        }
        if slow:
            return Proposal(without(self.state, slow), self.revision)
        for node, progress in self._progress.items():
            member = Member(node, progress.broker_epoch)
            if member in self.state.in_sync or progress.end < self._joining_end():
                continue
            if not may_join(member):
                continue
            # One that fell behind again while it waited would only be thrown out again.
            if now_ms - progress.in_step_ms <= self._lag_max_ms:
                return Proposal(joined(self.state, member), self.revision, joining=member)
        return None

    def _joining_end(self) -> int:
        """A member has all that is committed, and all that earlier leaders left to this one."""
        return max(self.high_watermark, self.epoch_start)

    def _in_step_ms(self, member: Member) -> int:
        progress = self._progress.get(member.node)
        if progress is None or progress.broker_epoch != member.broker_epoch:
            return self._since_ms
        return progress.in_step_ms

    # --- what is committed ----------------------------------------------------------------

    def _advance(self) -> None:
        # Most often nothing is left to commit: this leader is itself in every set.
        if self._durable_end <= self.high_watermark or not self.may_commit:
            return
        end = min(map(self.end_of, self.state.in_sync))
        if self.proposal is not None:
            end = min(end, *map(self.end_of, self.proposal.state.in_sync))
        self.high_watermark = max(self.high_watermark, end)

    def end_of(self, member: Member) -> int:
        """How far a member is, as far as it has told."""
        if member == self.me:
            return self._durable_end
        progress = self._progress.get(member.node)
        if progress is None or progress.broker_epoch != member.broker_epoch:
            return 0
        return progress.end
