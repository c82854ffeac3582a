"""One partition of a topic on this node: a log, and how far its readers may see.

Single writer: every method runs on the event loop. On a cluster of one, everything durable under
the topic's fsync policy is committed, so the high watermark is the durable end of the log.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.flushing import Flusher, FlushSchedule
from goqueue.broker.partitions.intake import Admitted, LaneAt, PlacedBatch, place
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.log_ends import NO_SUCH_OFFSET, offset_at_an_end
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.broker.partitions.turn import ProducerTurns, Turn
from goqueue.broker.partitions.waiting import Waiter, credit_all, wake_all
from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import NO_TIMESTAMP, read_header
from goqueue.model.control import Marker, encode_marker
from goqueue.model.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    PartitionOffline,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from goqueue.model.log import (
    MAX_TIMESTAMP,
    Appended,
    EpochEnd,
    Isolation,
    ListedOffset,
)
from goqueue.model.names import TopicPartition
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.log import LogRead, PartitionLog

logger = logging.getLogger(__name__)


class Partition:
    def __init__(
        self,
        log: PartitionLog,
        ledger: ProducerLedger,
        lanes: LaneLedger,
        *,
        leader_epoch: int,
        is_led: bool,
        flusher: Flusher,
        readers: Executor,
        decoder: BatchDecoder,
        clock_ms: Callable[[], int],
    ) -> None:
        self.log = log
        self.ledger = ledger
        self.lanes = lanes
        self.leader_epoch = leader_epoch
        # Whether this node leads it; a copy of another's is only looked after.
        self.is_led = is_led
        self.waiters: dict[Waiter, None] = {}
        # Called when the high watermark moved, and when the partition went offline.
        self.commit_listeners: list[Callable[[], None]] = []
        # None: messages of the topic are not traced.
        self.trace: PartitionTrace | None = None
        self.turn = Turn()
        self.producer_turns = ProducerTurns()
        # The run that compacts this partition now; it must end before the log does.
        self.compacting: asyncio.Task[bool] | None = None
        # The thread that deletes files; so must this.
        self._disk_work: set[asyncio.Future[None]] = set()
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_out = 0
        # Sent again by idempotent producers, and stored once.
        self.duplicate_batches = 0
        self.decoder = decoder
        self._readers = readers
        self.clock_ms = clock_ms
        self._offline: PartitionOffline | None = None
        self._committing: list[tuple[int, int, asyncio.Future[None]]] = []
        self._commit_ticket = 0
        self._flushes = FlushSchedule(
            log, flusher, flushed=self._flush_done, failed=self._go_offline
        )
        self._high_watermark = log.log_end_offset
        if log.offline_reason is not None:
            self._offline = PartitionOffline(log.offline_reason)
        elif log.epochs.latest < leader_epoch:
            log.epochs.assign(leader_epoch, log.log_end_offset)

    @property
    def name(self) -> TopicPartition:
        return self.log.name

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        # Deleting records may pass the start of an open transaction.
        stable_offset = self.ledger.producers.last_stable_offset(self._high_watermark)
        return max(stable_offset, self.log.log_start_offset)

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def offline_reason(self) -> str | None:
        return None if self._offline is None else str(self._offline)

    def check_online(self) -> None:
        if self._offline is not None:
            raise self._offline

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a caller that knows an older or newer leader than us (KIP-320); -1 is any."""
        if epoch in (-1, self.leader_epoch):
            return
        known = f"{self.name} is at leader epoch {self.leader_epoch}, the request at {epoch}"
        raise FencedLeaderEpoch(known) if epoch < self.leader_epoch else UnknownLeaderEpoch(known)

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
                self._go_offline(error)
            raise
        if log.segment_count != segment_count:
            self._save_ledgers()
        end_offset = log.log_end_offset
        config = log.config
        self.lanes.record(base_offset, lanes, end_offset)
        self.messages_in += end_offset - base_offset
        self.bytes_in += len(data)
        self._flushes.appended(config.fsync_policy, config.flush_ms)
        self._advance(len(data))
        stamps = config.message_timestamp_type == "LogAppendTime"
        return Appended(base_offset, end_offset - 1, now_ms if stamps else NO_TIMESTAMP)

    def _save_ledgers(self) -> None:
        """When a segment is full, write down what we know: a restart then reads one at most."""
        for write in (self.ledger.snapshot(), self.lanes.snapshot()):
            if write is not None:
                saving = asyncio.get_running_loop().run_in_executor(self._readers, write)
                saving.add_done_callback(self._ledger_saved)
        # Without this, a log that is never flushed would be scanned whole after a crash.
        self._flushes.start()

    def _ledger_saved(self, saving: "asyncio.Future[None]") -> None:
        if not saving.cancelled() and saving.exception() is not None:
            logger.warning("%s: no snapshot beside the log: %s", self.name, saving.exception())

    async def wait_committed(self, offset: int, timeout_ms: int) -> None:
        """Return once everything below `offset` is committed: durable, later also replicated."""
        self.check_online()
        if offset <= self._high_watermark:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._commit_ticket += 1
        heapq.heappush(self._committing, (offset, self._commit_ticket, future))
        timer = loop.call_later(timeout_ms / 1000, _time_out, future, self.name, timeout_ms)
        try:
            await future
        finally:
            timer.cancel()

    def _flush_done(self) -> None:
        log = self.log
        config = log.config
        if log.flushed_offset < log.log_end_offset:
            self._flushes.appended(config.fsync_policy, config.flush_ms)
        self._advance(0)

    def _advance(self, appended_bytes: int) -> None:
        log = self.log
        always = log.config.fsync_policy == "always"
        durable_offset = log.flushed_offset if always else log.log_end_offset
        if durable_offset <= self._high_watermark:
            return
        self._high_watermark = durable_offset
        # Also forgets what was only of interest until here.
        self.ledger.producers.last_stable_offset(durable_offset)
        while self._committing and self._committing[0][0] <= durable_offset:
            _, _, future = heapq.heappop(self._committing)
            if not future.done():
                future.set_result(None)
        for listener in tuple(self.commit_listeners):
            listener()
        if self.trace is not None:
            self.trace.committed(durable_offset)
        if not self.waiters:
            return
        if appended_bytes:
            credit_all(self.waiters, appended_bytes)
        else:
            # A flush does not know how many bytes it made readable: let them look.
            wake_all(self.waiters)

    def _go_offline(self, error: PartitionOffline) -> None:
        if self._offline is not None:
            return
        logger.error("partition %s is offline: %s", self.name, error)
        self._turn_away(error)

    def give_up(self, reason: str) -> PartitionOffline:
        """Nobody can work with what is stored here: the error to raise, now and from now on."""
        error = PartitionOffline(
            f"{self.name}: {reason}; see `goqueue data check` with the broker stopped"
        )
        self._go_offline(error)
        return error

    # --- reading --------------------------------------------------------------------------

    def readable_end(self, isolation: Isolation) -> int:
        if isolation is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self._high_watermark

    async def read(
        self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, as they are stored."""
        found = await self.look(offset, max_bytes, isolation=isolation, at_least_one=at_least_one)
        self.bytes_out += len(found.data)
        self.messages_out += found.next_offset - offset
        return found

    async def look(
        self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool = True
    ) -> LogRead:
        """As `read`, for the broker's own eyes: it is no traffic."""
        self.check_online()
        up_to = self.readable_end(isolation)
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is outside {self.log.log_start_offset} to "
                f"{self.log.log_end_offset}"
            )
        if offset >= up_to or max_bytes <= 0:
            return LogRead(b"", offset)
        try:
            found = self.log.read(
                offset, max_bytes, up_to=up_to, at_least_one=at_least_one, may_block=False
            )
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(
                self._readers, self._read_cold, offset, max_bytes, up_to, at_least_one
            )
        return found

    def _read_cold(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> LogRead:
        return self.log.read(
            offset, max_bytes, up_to=up_to, at_least_one=at_least_one, may_block=True
        )

    async def list_offset(self, timestamp: int, *, isolation: Isolation) -> ListedOffset:
        self.check_online()
        log = self.log
        up_to = self.readable_end(isolation)
        at_an_end = offset_at_an_end(log, timestamp, up_to, self.leader_epoch)
        if at_an_end is not None:
            return at_an_end
        loop = asyncio.get_running_loop()
        if timestamp == MAX_TIMESTAMP:
            found = await loop.run_in_executor(self._readers, log.max_timestamp)
        else:
            found = await loop.run_in_executor(
                self._readers, lambda: log.offset_for_timestamp(timestamp, up_to=up_to)
            )
        if found is None or found.offset >= up_to:
            return NO_SUCH_OFFSET
        return ListedOffset(found.offset, found.timestamp_ms, found.leader_epoch)

    def aborted_between(self, offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """What a read-committed reader of these offsets must leave out."""
        return tuple(self.ledger.aborted.overlapping(offset, end_offset))

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        found = self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)
        return EpochEnd(*found)

    def divergence(self, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Where a reader that saw `last_fetched_epoch` up to `offset` left our log (KIP-595)."""
        if last_fetched_epoch < 0:
            return None
        end = self.end_of_epoch(last_fetched_epoch)
        if end.epoch < 0:
            raise OffsetOutOfRange(
                f"{self.name}: leader epoch {last_fetched_epoch} was never seen here"
            )
        if end.epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None

    # --- upkeep ---------------------------------------------------------------------------

    async def delete_records(self, before_offset: int) -> int:
        self.check_online()
        target = self._high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self._high_watermark:
            raise OffsetOutOfRange(
                f"{self.name}: cannot delete before offset {before_offset}; the high watermark is "
                f"{self._high_watermark}"
            )
        if target > self.log.log_start_offset:
            await self._on_disk(self.log.save_start, target)
            self.check_online()
            # Another request, or retention, may have been faster.
            self.log.advance_start(max(target, self.log.log_start_offset))
            wake_all(self.waiters)
        return self.log.log_start_offset

    def apply_retention(self, *, archived_offset: int | None = None) -> int:
        if self._offline is not None:
            return 0
        now_ms = self.clock_ms()
        log_start = self.log.log_start_offset
        try:
            freed_bytes = self.log.apply_retention(now_ms, archived_offset=archived_offset)
            self.ledger.upkeep(now_ms)
            self.lanes.upkeep()
        except PartitionOffline as error:
            self._go_offline(error)
            return 0
        if self.log.log_start_offset > log_start:
            # Also one that waits below it must hear of it.
            wake_all(self.waiters)
        return freed_bytes

    async def purge_deleted(self) -> None:
        """Delete the files that retention left: they take syncs of the disk."""
        if self._offline is None and self.log.has_deleted:
            await self._on_disk(self.log.purge_deleted, self.clock_ms())

    async def _on_disk(self, work: Callable[[int], None], argument: int) -> None:
        """In a thread; `retire` waits for it."""
        running = asyncio.get_running_loop().run_in_executor(self._readers, work, argument)
        self._disk_work.add(running)
        running.add_done_callback(self._disk_work.discard)
        await running

    def roll_if_old(self) -> None:
        """Close the active segment if it is time, so that compaction reaches its records."""
        try:
            if self.log.roll_if_old(self.clock_ms()):
                self._save_ledgers()
        except PartitionOffline as error:
            if self.log.offline_reason is not None:
                self._go_offline(error)

    def reconfigure(self, config: TopicConfig) -> None:
        self.log.reconfigure(config)
        self._flushes.cancel()
        if self.log.flushed_offset < self.log.log_end_offset:
            self._flushes.appended(config.fsync_policy, config.flush_ms)

    def close_files(self) -> LogEnd:
        """Blocking, after `retire`: everything is on disk on return, or an error."""
        self.log.close()
        self.ledger.close()
        self.lanes.close()
        return LogEnd(self.log.log_start_offset, self.log.log_end_offset)

    def let_go(self) -> None:
        """After `retire`: close the files as they are. The next start verifies them."""
        self.log.let_go()

    def stop_taking(self) -> None:
        """No more requests, and no more flushes. Of many partitions, all before the first is
        retired: it would wait for the flushes of the others.
        """
        self._turn_away(self._offline or PartitionOffline(f"{self.name} is closed"))
        self._flushes.end()

    async def retire(self) -> None:
        """As `stop_taking`, and wait for the end of what runs in the background."""
        if not self._flushes.is_over:
            self.stop_taking()
        if self.compacting is not None:
            self.compacting.cancel()
            await asyncio.wait([self.compacting])
        if self._disk_work:
            await asyncio.wait(self._disk_work)
        await self._flushes.settle()

    def _turn_away(self, error: PartitionOffline) -> None:
        """From now on every request gets `error`, and those that wait get it at once."""
        self._offline = error
        for _, _, future in self._committing:
            if not future.done():
                future.set_exception(error)
        self._committing.clear()
        if self.trace is not None:
            self.trace.failed(str(error))
        for listener in tuple(self.commit_listeners):
            listener()
        wake_all(self.waiters)


def _time_out(future: "asyncio.Future[None]", name: TopicPartition, timeout_ms: int) -> None:
    if not future.done():
        future.set_exception(
            RequestTimedOut(f"{name}: append was not committed within {timeout_ms} ms")
        )
