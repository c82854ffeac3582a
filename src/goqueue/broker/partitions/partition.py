"""One partition that this node leads: what is written to it, and how far its readers may see.

It is there from the moment this node leads until it stands down; who holds it longer than that gets
`NotLeader`. The files, and what any copy of the partition needs, are in `HostedPartition`.

Single writer: every method runs on the event loop. How far readers see, the high watermark, is the
durable end of the log on a node of one, and what `Leading` says where there are other replicas.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.partitions.deletions_told import DeletionsTold
from goqueue.broker.partitions.intake import Admitted, LaneAt, PlacedBatch, place
from goqueue.broker.partitions.log_ends import NO_SUCH_OFFSET, offset_at_an_end
from goqueue.broker.partitions.offset_waits import OffsetWaits
from goqueue.broker.partitions.reading import ReadableCopy
from goqueue.broker.partitions.sole_writer import SoleWriter
from goqueue.broker.partitions.turn import ProducerTurns, Turn
from goqueue.broker.partitions.waiting import Waiters, credit_all, wake_all
from goqueue.model.batch import HEADER_BYTES, NO_TIMESTAMP, Buffer, read_header
from goqueue.model.control import Marker, encode_marker
from goqueue.model.errors import (
    GoQueueError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PartitionOffline,
    RequestTimedOut,
)
from goqueue.model.log import (
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    Appended,
    Isolation,
    ListedOffset,
)
from goqueue.model.replication import Member, PartitionState
from goqueue.state.replication.leading import FetchVerdict, Leading, Proposal
from goqueue.storage.log import LogRead

if TYPE_CHECKING:
    from goqueue.broker.partitions.hosted import HostedPartition


class Partition(ReadableCopy):
    def __init__(
        self, hosted: "HostedPartition", *, leader_epoch: int, leading: Leading | None = None
    ) -> None:
        """Without `leading`, for a node of one, everything durable is committed."""
        super().__init__(hosted, leader_epoch)
        log = hosted.log
        self.lanes = hosted.lanes
        self.trace = hosted.trace
        self.leading = leading
        # Called when the high watermark moved, and when the partition is led no longer.
        self.commit_listeners: list[Callable[[], None]] = []
        if leading is not None:
            self._deletions_told = DeletionsTold(log.compaction)
        # Other replicas that wait for the log to grow.
        self.replicas = Waiters()
        self.turn = Turn()
        self.sole_writer = SoleWriter(self.turn)
        self.producer_turns = ProducerTurns()
        self.decoder = hosted.decoder
        self.clock_ms = hosted.clock_ms
        self._flushes = hosted.flushes
        self._commits = OffsetWaits()
        self._writes = OffsetWaits()
        self._high_watermark = log.log_end_offset if leading is None else leading.high_watermark

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    # --- writing --------------------------------------------------------------------------

    def append(self, admitted: Admitted) -> Appended:
        """Append what was admitted to the page cache. `wait_committed` says when it is safe."""
        self.check_online()
        data, batches, now_ms, _, started_us, admitted_us, lanes = admitted
        appended = self._write(data, batches, now_ms, lanes=lanes)
        if self.trace is not None and started_us:
            self.trace.appended(
                data,
                appended.base_offset,
                appended.last_offset + 1,
                high_watermark=self._high_watermark,
                started_us=started_us,
                admitted_us=admitted_us,
            )
        return appended

    def refused(self, records: Buffer, error: GoQueueError) -> None:
        """A producer's batches were not appended, for a reason that may pass."""
        if len(records) >= HEADER_BYTES:
            self.ledger.producers.refused(read_header(records), error)

    def append_own(self, data: bytearray) -> Appended:
        """Append batches of records that the broker made itself."""
        self.check_online()
        batches: list[PlacedBatch] = []
        position = 0
        while position < len(data):
            header = read_header(data, position)
            batches.append((position, header))
            position += header.size_bytes
        return self._write(data, batches, self.clock_ms())

    def append_marker(
        self, marker: Marker, *, producer_id: int, producer_epoch: int, bumps_epoch: bool
    ) -> int:
        """End a producer's transaction here; returns the offset whose commit makes it final."""
        self.check_online()
        if self.ledger.producers.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, bumps_epoch=bumps_epoch
        ):
            now_ms = self.clock_ms()
            batch = encode_marker(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, now_ms=now_ms
            )
            self._write(batch, [(0, read_header(batch))], now_ms, marker=marker)
        return self.log.log_end_offset

    def _write(
        self,
        data: bytearray,
        batches: list[PlacedBatch],
        now_ms: int,
        *,
        marker: Marker | None = None,
        lanes: Sequence[LaneAt] = (),
    ) -> Appended:
        log = self.log
        base_offset = log.log_end_offset
        segment_count = log.segment_count
        placed = place(data, batches, base_offset=base_offset, leader_epoch=self.leader_epoch)
        try:
            log.append(data, placed, now_ms=now_ms)
            for _, header in placed:
                if header.producer_id >= 0:
                    self.ledger.record(header, marker, now_ms)
        except PartitionOffline as error:
            if log.offline_reason is not None:
                self.hosted.go_offline(error)
            raise
        if log.segment_count != segment_count:
            self.hosted.save_ledgers()
        end_offset = log.log_end_offset
        config = log.config
        self.lanes.record(base_offset, lanes, end_offset)
        counts = self.counts
        counts.messages_in += end_offset - base_offset
        counts.bytes_in += len(data)
        self._flushes.appended(config.fsync_policy, config.flush_ms)
        self._advance(len(data))
        stamps = config.message_timestamp_type == "LogAppendTime"
        return Appended(base_offset, end_offset - 1, now_ms if stamps else NO_TIMESTAMP)

    # --- what is committed ----------------------------------------------------------------

    @property
    def commits_at_once(self) -> bool:
        """Whether what is appended needs neither other replicas nor the disk to be committed."""
        return self.leading is None and self.log.config.fsync_policy != "always"

    async def wait_committed(self, offset: int, timeout_ms: int) -> None:
        """Return once everything below `offset` is committed: durable wherever it has to be."""
        self.check_online()
        if offset > self._high_watermark:
            await self._commits.reached(offset, timeout_ms, self._not_committed)

    async def wait_acknowledged(self, acks: int, offset: int, timeout_ms: int) -> None:
        """As a producer wants it: `acks` is -1 for all in-sync replicas, 1 for this one alone."""
        if acks == -1 or self.leading is None:
            self.check_online()
            if offset > self._high_watermark:
                await self._commits.reached(offset, timeout_ms, self.not_acknowledged)
        elif self.log.config.fsync_policy == "always" and self.log.flushed_offset < offset:
            self.check_online()
            await self._writes.reached(offset, timeout_ms, self._not_committed)

    def _not_committed(self, timeout_ms: int) -> GoQueueError:
        return RequestTimedOut(f"{self.name}: append was not committed within {timeout_ms} ms")

    def not_acknowledged(self, timeout_ms: int) -> GoQueueError:
        """What to tell who waited for so long for the commit of an append."""
        leading = self.leading
        if leading is None or leading.may_commit:
            return self._not_committed(timeout_ms)
        return NotEnoughReplicasAfterAppend(
            f"{self.name}: appended, and not committed within {timeout_ms} ms: {_too_few(leading)}"
        )

    def check_enough_in_sync(self) -> None:
        """Before an append that all in-sync replicas are to have."""
        if self.leading is not None and not self.leading.may_commit:
            raise NotEnoughReplicas(f"{self.name}: {_too_few(self.leading)}")

    def flushed(self) -> None:
        """More of the log is on disk."""
        if self._writes.heap:
            self._writes.release(self.log.flushed_offset)
        self._advance(0)

    def _advance(self, appended_bytes: int) -> None:
        log = self.log
        always = log.config.fsync_policy == "always"
        durable_offset = log.flushed_offset if always else log.log_end_offset
        leading = self.leading
        if leading is None:
            if durable_offset > self._high_watermark:
                self._show(durable_offset, appended_bytes)
            return
        leading.appended(log.log_end_offset, durable_offset)
        if appended_bytes:
            credit_all(self.replicas.waiters, appended_bytes)
        self._show_committed(leading)

    def _show_committed(self, leading: Leading) -> None:
        """As far as all have it that must."""
        if leading.high_watermark > self._high_watermark:
            self._show(leading.high_watermark, 0)
            # They are told of it with the next answer; by itself it is worth none.
            credit_all(self.replicas.waiters, 0)

    def _show(self, high_watermark: int, appended_bytes: int) -> None:
        """Readers may see up to here; `appended_bytes` is how much more that is, 0 if unknown."""
        self._high_watermark = high_watermark
        # Also forgets what was only of interest until here.
        self.ledger.producers.last_stable_offset(high_watermark)
        if self._commits.heap:
            self._commits.release(high_watermark)
        for listener in tuple(self.commit_listeners):
            listener()
        if self.trace is not None:
            self.trace.committed(high_watermark)
        if not self.waiters:
            return
        if appended_bytes:
            credit_all(self.waiters, appended_bytes)
        else:
            wake_all(self.waiters)

    def stand_down(self, error: GoQueueError) -> None:
        """From now on every request gets `error`, and those that wait get it at once."""
        self._over = error
        self._commits.fail(error)
        self._writes.fail(error)
        if self.trace is not None:
            self.trace.failed(str(error))
        for listener in tuple(self.commit_listeners):
            listener()
        self.wake_readers()

    def wake_readers(self) -> None:
        """Something happened that is not more to read: an end, or a new start of the log."""
        wake_all(self.waiters)
        wake_all(self.replicas.waiters)

    # --- other replicas -------------------------------------------------------------------

    def fetched_by(self, follower: Member, offset: int, now_ms: int) -> FetchVerdict:
        """A replica asks for `offset` under our leader epoch, and `divergence` found none: it has
        everything before, as durable as it must be.

        `OffsetOutOfRange`: it must throw its log away and go on at our log's start.
        """
        leading = self.leading
        if leading is None:
            return FetchVerdict.NOT_A_REPLICA
        start = self.log.log_start_offset
        if not self._deletions_told.may_go_on(
            follower, offset, log_start=start, now_ms=self.clock_ms()
        ):
            raise OffsetOutOfRange(
                f"{self.name}: tombstones after offset {offset} are gone; begin anew at {start}"
            )
        verdict = leading.fetched(follower, offset, now_ms)
        self._show_committed(leading)
        return verdict

    async def look_as_replica(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> LogRead:
        """Batches up to the end of the log, committed or not.

        `OffsetOutOfRange`: the replica must throw its log away and go on at our log's start.
        """
        self.check_online()
        return await self._look(offset, max_bytes, self.log.log_end_offset, at_least_one)

    def proposal_due(
        self, now_ms: int, may_join: Callable[[Member], bool] = lambda _: True
    ) -> Proposal | None:
        """The change of the in-sync set to ask the store for: the same until it is settled."""
        if self.leading is None or self._over is not None:
            return None
        return self.leading.propose(now_ms, may_join)

    def proposal_came_true(self, proposal: Proposal, revision: int) -> bool:
        return self.state_seen(proposal.state, revision)

    def proposal_refused(
        self, proposal: Proposal, found: tuple[PartitionState, int] | None
    ) -> bool:
        """The store compared and refused; `found` is the partition as it is there, if it said so.
        False where that says that this node leads no longer."""
        leads = found is None or self.state_seen(*found)
        if self.leading is not None:
            self.leading.refused(proposal)
            self._show_committed(self.leading)
        return leads

    def state_seen(self, state: PartitionState, revision: int) -> bool:
        """The partition as the store has it. False: this node leads no longer, or under another
        epoch, and the caller sees to its new role."""
        leading = self.leading
        if leading is None:
            return True
        leads = leading.observe(state, revision)
        self._show_committed(leading)
        return leads

    # --- reading --------------------------------------------------------------------------

    async def list_offset(
        self, timestamp: int, *, isolation: Isolation, messages_from: int | None = None
    ) -> ListedOffset:
        """Of a time that is not special, the first record of this time or later. As in Kafka that
        may be a marker, unless `messages_from` says where to begin to look for messages."""
        self.check_online()
        log = self.log
        up_to = self.readable_end(isolation)
        if timestamp == LATEST_TIMESTAMP:
            self._check_knows_its_end()
        at_an_end = offset_at_an_end(log, timestamp, up_to, self.leader_epoch)
        if at_an_end is not None:
            return at_an_end
        loop = asyncio.get_running_loop()
        if timestamp == MAX_TIMESTAMP:
            found = await loop.run_in_executor(self._readers, log.max_timestamp)
        else:
            found = await loop.run_in_executor(
                self._readers,
                lambda: log.offset_for_timestamp(
                    timestamp, up_to=up_to, messages_from=messages_from
                ),
            )
        if found is None or found.offset >= up_to:
            self._check_knows_its_end()
            return NO_SUCH_OFFSET
        return ListedOffset(found.offset, found.timestamp_ms, found.leader_epoch)

    @property
    def knows_its_end(self) -> bool:
        """Whether all that earlier leaders committed is known to be committed (KIP-207)."""
        return self.leading is None or self.leading.knows_its_end

    def _check_knows_its_end(self) -> None:
        if not self.knows_its_end:
            raise OffsetNotAvailable(
                f"{self.name}: leader epoch {self.leader_epoch} has just begun, and it is not "
                "known yet how far the log was committed; try again"
            )

    # --- deleting -------------------------------------------------------------------------

    async def delete_records(self, before_offset: int) -> int:
        self.check_online()
        target = self._high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self._high_watermark:
            raise OffsetOutOfRange(
                f"{self.name}: cannot delete before offset {before_offset}; the high watermark is "
                f"{self._high_watermark}"
            )
        if target > self.log.log_start_offset:
            await self.hosted.on_disk(self.log.save_start, target)
            self.check_online()
            # Another request, or retention, may have been faster.
            self.log.advance_start(max(target, self.log.log_start_offset))
            self.wake_readers()
        return self.log.log_start_offset

    def give_up(self, reason: str) -> PartitionOffline:
        """Nobody can work with what is stored here: the error to raise, now and from now on."""
        return self.hosted.give_up(reason)


def _too_few(leading: Leading) -> str:
    state = leading.state
    return f"{len(state.in_sync)} of {state.quorum} replicas that must be in sync are"
