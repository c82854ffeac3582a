"""A copy of one partition on this node, whatever its role: the log, and all that lies beside it.

Its roles: *alone* (a node of one; it leads and there is nobody to ask), *leading*, *following*,
and *standing by* while no leader is known or this broker was not admitted. While it leads, `led` is
the `Partition` that callers work with; each leadership has one of its own.

Single writer: every method runs on the event loop.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from goqueue.broker.partitions.copied_batches import Copied, check_copied
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.flushing import Flusher
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.broker.partitions.reading import Followed
from goqueue.broker.partitions.standby import Standby
from goqueue.broker.partitions.stored import StoredPartition
from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.model.errors import GoQueueError, NotLeader, PartitionOffline
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topic_config import TopicConfig
from goqueue.state.controller.elections import LogEnd as ReplicaEnd
from goqueue.state.replication.following import (
    Append,
    BelowStart,
    Diverging,
    FetchQuestion,
    Following,
    Halt,
    Ignore,
    Records,
    StartAt,
    Step,
    Truncate,
)
from goqueue.state.replication.leading import Leading
from goqueue.storage.epochs import NO_OFFSET
from goqueue.storage.high_watermarks import watermark_key
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)

NO_LEADER_EPOCH = -1


class HostedPartition(StoredPartition):
    def __init__(
        self,
        log: PartitionLog,
        ledger: ProducerLedger,
        lanes: LaneLedger,
        *,
        flusher: Flusher,
        readers: Executor,
        decoder: BatchDecoder,
        clock_ms: Callable[[], int],
        lag_max_ms: int,
        role_changed: Callable[["HostedPartition"], None],
        log_failed: Callable[[], None] = lambda: None,
        high_watermark: int = 0,
    ) -> None:
        """`high_watermark`: as it was noted before the last stop, if it was."""
        super().__init__(
            log,
            ledger,
            lanes,
            flusher=flusher,
            readers=readers,
            decoder=decoder,
            clock_ms=clock_ms,
        )
        # Under which its high watermark is noted.
        self.watermark_key = watermark_key(log.topic_id, log.name.partition)
        self.led: Partition | None = None
        self.following: Following | None = None
        # As long as it follows: what readers see of it.
        self.followed: Followed | None = None
        # Keeps up with what is committed while another node leads, if somebody wants that.
        self.standby: Standby | None = None
        # The last that this replica accepted, in any role; it acts on nothing older.
        self.leader_epoch = NO_LEADER_EPOCH
        self._lag_max_ms = lag_max_ms
        self._role_changed = role_changed
        self._log_failed = log_failed
        # Where the leader's log starts: what lies below may go.
        self._leader_start = 0
        # How far the leader's readers see, as it told last.
        self._leader_watermark = 0
        self._high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        # Of the partition's key in the store, as it was learned last.
        self._revision = 0
        # From here on something is missing that was there before the broker started.
        self._lost_from = min((damage.offset for damage in log.damage), default=None)

    @property
    def high_watermark(self) -> int:
        """While it stands by or follows, the last that it knows of."""
        return self._high_watermark if self.led is None else self.led.high_watermark

    @property
    def last_stable_offset(self) -> int:
        stable_offset = self.ledger.producers.last_stable_offset(self.high_watermark)
        return max(stable_offset, self.log.log_start_offset)

    @property
    def lag(self) -> int:
        """How many committed records this copy lacks, as far as it knows."""
        if self.following is None:
            return 0
        return max(0, self._leader_watermark - self.log.log_end_offset)

    @property
    def replica_end(self) -> ReplicaEnd:
        """The epoch of the last record, and where the log ends: what an election may ask for. A log
        with a hole goes no further than that, for another one may have what is missing."""
        end = self.log.log_end_offset if self._lost_from is None else self._lost_from
        epoch, _ = self.log.epochs.covering(end - 1)
        return ReplicaEnd(epoch, end)

    # --- roles ----------------------------------------------------------------------------

    def lead_alone(self, leader_epoch: int) -> None:
        """A node of one: what was found in the log is on disk, and committed."""
        self.leader_epoch = leader_epoch
        self.log.epochs.assign(leader_epoch, self.log.log_end_offset)
        self._take_over(Partition(self, leader_epoch=leader_epoch))

    async def learn(self, state: PartitionState, revision: int, me: Member, *, now_ms: int) -> None:
        """Take the role that the store gives this replica; `revision` is of the partition's key.

        Older revisions than the last that was learned change nothing. After a new registration,
        `stand_by` comes first: nothing that was promised under the old one counts any more.
        """
        if self.knows(revision):
            return
        self._revision = revision
        if self.led is not None:
            if self.led.state_seen(state, revision):
                return
            self._stand_down(state.leader)
        is_new = state.leader_epoch > self.leader_epoch
        if not is_new and (state.leader_epoch < self.leader_epoch or self.following is not None):
            return
        if state.leader == me.node:
            if is_new and me in state.in_sync:
                await self.lead(state, revision, me, now_ms=now_ms)
            else:
                await self.stand_by(state.leader_epoch)
        elif state.leader == NO_LEADER:
            await self.stand_by(state.leader_epoch)
        else:
            await self.follow(state.leader, state.leader_epoch, me.broker_epoch)

    def knows(self, revision: int) -> bool:
        """Whether the partition's key was learned as it was at `revision`, or later."""
        return revision <= self._revision

    async def lead(self, state: PartitionState, revision: int, me: Member, *, now_ms: int) -> None:
        """Lead under the epoch of `state`, which starts at the end of this log."""
        if not await self._leave_role(state.leader_epoch):
            return
        log = self.log
        # It reaches the disk with the next flush. One at once for each of some thousand elections
        # would take the disk from a metadata store on the same, just when all wait for it.
        log.epochs.assign(state.leader_epoch, log.log_end_offset)
        always = log.config.fsync_policy == "always"
        leading = Leading(
            me,
            state,
            revision,
            high_watermark=self._high_watermark,
            log_end=log.log_end_offset,
            durable_end=log.flushed_offset if always else log.log_end_offset,
            lag_max_ms=self._lag_max_ms,
            now_ms=now_ms,
        )
        self._revision = max(self._revision, revision)
        self._take_over(Partition(self, leader_epoch=state.leader_epoch, leading=leading))

    async def follow(self, leader: NodeId, leader_epoch: int, broker_epoch: int) -> None:
        """Copy from `leader`; `broker_epoch` is that of this broker's registration.

        What was found damaged at the start is copied again, and all after it: a broker whose disk
        lost something counts for nothing until it has caught up.
        """
        if not await self._leave_role(leader_epoch, leader):
            return
        lost_from, self._lost_from = self._lost_from, None
        if lost_from is not None and self.is_at_rest:
            logger.warning("%s: copied again from offset %d on", self.name, lost_from)
            self._high_watermark = min(self._high_watermark, lost_from)
            self._tell_cut(lost_from)
            await self._cut(lambda: self.log.truncate_to(lost_from), from_offset=lost_from)
            if self.leader_epoch != leader_epoch or self.led is not None:
                return
        self.following = Following(leader, leader_epoch, broker_epoch, self._high_watermark)
        self.followed = Followed(self, leader_epoch)
        self._role_changed(self)

    async def stand_by(self, leader_epoch: int | None = None) -> None:
        """No leader is known under this epoch; or, without one, this broker registers anew, and
        learns its role again."""
        if leader_epoch is None:
            self._revision = 0
        if await self._leave_role(self.leader_epoch if leader_epoch is None else leader_epoch):
            self._role_changed(self)

    async def move_away(self, state: PartitionState) -> None:
        """This broker has no replica any more; the folder is removed after that."""
        if await self._leave_role(max(state.leader_epoch, self.leader_epoch), state.leader):
            self._role_changed(self)

    def _take_over(self, led: Partition) -> None:
        self.led = led
        self._role_changed(self)

    async def _leave_role(self, leader_epoch: int, leader: NodeId = NO_LEADER) -> bool:
        """False if a newer epoch was accepted while this one waited."""
        if leader_epoch < self.leader_epoch:
            return False
        self.leader_epoch = leader_epoch
        self._stand_down(leader)
        self.following = None
        while self._cutting is not None:
            await asyncio.wait([self._cutting])
        return leader_epoch == self.leader_epoch

    def _stand_down(self, leader: NodeId) -> None:
        led, self.led = self.led, None
        followed, self.followed = self.followed, None
        who = "nobody" if leader == NO_LEADER else f"broker {leader}"
        if led is not None:
            self._high_watermark = led.high_watermark
            led.stand_down(NotLeader(f"{self.name} is led by {who} now, not by this broker"))
        if followed is not None:
            followed.end(NotLeader(f"{self.name} is led by {who} now"))

    # --- following ------------------------------------------------------------------------

    def question(self) -> FetchQuestion | None:
        """What to ask the leader for. None: not now; try again a little later.

        The leader takes the offset for a promise: everything below is as durable as it must be.
        """
        log = self.log
        if self.following is None or not self.is_at_rest:
            return None
        if log.config.fsync_policy == "always" and log.flushed_offset < log.log_end_offset:
            self.flushes.start()
            return None
        return self.following.question(log.epochs, log.log_end_offset)

    async def answered(
        self, question: FetchQuestion, answer: Copied | Diverging | BelowStart
    ) -> Step:
        """Carry out what the leader's answer asks for, and say what that was.

        On return the copy is as durable as the topic wants it, and the next question may be asked.
        `CorruptBatch`: the bytes are not what the leader has. `PartitionOffline`: the disk.
        """
        following, log = self.following, self.log
        if following is None or not self.is_at_rest:
            return Ignore()
        if isinstance(answer, Copied):
            return await self._copy(following, question, answer)
        step = following.answered(question, answer, log.epochs, log.log_end_offset)
        match step:
            case Truncate(to_offset):
                logger.info(
                    "%s: cut from %d to %d, as the leader of epoch %d says",
                    self.name,
                    log.log_end_offset,
                    to_offset,
                    following.leader_epoch,
                )
                self._tell_cut(to_offset)
                await self._cut(lambda: log.truncate_to(to_offset), from_offset=to_offset)
            case StartAt(log_start):
                logger.warning(
                    "%s: begins anew at offset %d, for the leader has nothing after %d",
                    self.name,
                    log_start,
                    log.log_end_offset,
                )
                self._tell_cut(NO_OFFSET)
                await self._cut(lambda: log.start_at(log_start), from_offset=NO_OFFSET)
                self._high_watermark = following.high_watermark = log_start
            case Halt(_, reason):
                self.give_up(f"stopped, for it would lose what was committed: {reason}")
        return step

    def _tell_cut(self, offset: int) -> None:
        if self.standby is not None:
            self.standby.cut(offset)

    async def _copy(self, following: Following, question: FetchQuestion, answer: Copied) -> Step:
        log = self.log
        end, known_watermark = log.log_end_offset, following.high_watermark
        if not following.is_asking(question, log.epochs, end):
            # A session answers a second request in flight with what it has just sent.
            return Ignore()
        data, batches = check_copied(
            answer.data, end, last_epoch=log.epochs.latest, leader_epoch=following.leader_epoch
        )
        next_offset = batches[-1][1].next_offset if batches else end
        records = Records(next_offset, answer.high_watermark)
        step = following.answered(question, records, log.epochs, end)
        if not isinstance(step, Append):
            return step
        if batches:
            try:
                self._append_copied(data, batches)
            except GoQueueError:
                following.high_watermark = known_watermark
                raise
        if step.high_watermark > self._high_watermark:
            self._high_watermark = step.high_watermark
            # Also forgets what was only of interest until here.
            self.ledger.producers.last_stable_offset(step.high_watermark)
            if self.followed is not None:
                self.followed.advanced()
            if self.standby is not None:
                self.standby.advanced()
        self._leader_start = max(self._leader_start, answer.log_start)
        self._leader_watermark = answer.high_watermark
        if batches and log.config.fsync_policy == "always":
            await self.flushed_to(log.log_end_offset)
        return step

    def dissolve(self) -> None:
        self._high_watermark = self.high_watermark
        if self.led is not None:
            self.led.trace = None
        self.led = self.followed = self.standby = None
        super().dissolve()

    # --- upkeep ---------------------------------------------------------------------------

    def go_offline(self, error: PartitionOffline) -> None:
        was_online = self.offline_error is None
        super().go_offline(error)
        # Else the log is whole, and it is the leader that lacks something.
        if was_online and self.log.offline_reason is not None:
            self._log_failed()

    def _flushed(self) -> None:
        if self.led is not None:
            self.led.flushed()

    def _turned_away(self, error: PartitionOffline) -> None:
        if self.led is not None:
            self.led.stand_down(error)
        if self.followed is not None:
            self.followed.end(error)
        if self.standby is not None:
            self.standby.end()
            self.standby = None

    def reconfigure(self, config: TopicConfig, trace: PartitionTrace | None) -> None:
        super().reconfigure(config, trace)
        if self.led is not None:
            self.led.trace = trace

    def apply_retention(self, *, archived_offset: int | None = None) -> int:
        """What is too old or too much goes where this node leads; a follower's log starts where
        its leader's does."""
        if not self.is_at_rest:
            return 0
        now_ms = self.clock_ms()
        log_start = self.log.log_start_offset
        try:
            if self.led is not None:
                freed_bytes = self.log.apply_retention(
                    now_ms, up_to=self.high_watermark, archived_offset=archived_offset
                )
            else:
                start = min(self._leader_start, self._high_watermark)
                freed_bytes = self.log.drop_before(start, now_ms)
            self.ledger.upkeep(now_ms)
            self.lanes.upkeep()
        except PartitionOffline as error:
            self.go_offline(error)
            return 0
        if self.led is not None and self.log.log_start_offset > log_start:
            # Also one that waits below it must hear of it.
            self.led.wake_readers()
        return freed_bytes
