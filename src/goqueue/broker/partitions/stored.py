"""The files of one partition: its log, what is remembered of it beside, and their upkeep.

What a copy of a partition is in the cluster (`HostedPartition`) stands on this. A log is cut in a
thread; nobody else touches it meanwhile (`is_at_rest`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from goqueue.broker.partitions.copied_batches import append_batches
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.flushing import Flusher, FlushSchedule
from goqueue.broker.partitions.intake import PlacedBatch
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.broker.partitions.uninterrupted import uninterrupted
from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.model.batch import Buffer
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.model.names import TopicPartition
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class PartitionCounts:
    """Since the partition was opened, in whatever role."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    messages_out: int = 0
    # Sent again by idempotent producers, and stored once.
    duplicate_batches: int = 0
    # From the leader, while this was a follower.
    bytes_copied: int = 0


class StoredPartition:
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
    ) -> None:
        self.log = log
        self.ledger = ledger
        self.lanes = lanes
        self.readers = readers
        self.decoder = decoder
        self.clock_ms = clock_ms
        self.counts = PartitionCounts()
        # None: messages of the topic are not traced.
        self.trace: PartitionTrace | None = None
        # The run that compacts this partition now; it must end before the log does.
        self.compacting: asyncio.Task[bool] | None = None
        self.flushes = FlushSchedule(log, flusher, flushed=self._flush_done, failed=self.go_offline)
        self.offline_error: PartitionOffline | None = None
        if log.offline_reason is not None:
            self.offline_error = PartitionOffline(log.offline_reason)
        # Threads that work on its files; so must these.
        self._disk_work: set[asyncio.Future[None]] = set()
        # Done when the log is not being cut any more.
        self._cutting: asyncio.Future[None] | None = None

    @property
    def name(self) -> TopicPartition:
        return self.log.name

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def is_at_rest(self) -> bool:
        """Whether the log may be changed: it is online, and nobody cuts it just now."""
        return self.offline_error is None and self._cutting is None

    @property
    def is_being_cut(self) -> bool:
        return self._cutting is not None

    @property
    def offline_reason(self) -> str | None:
        return None if self.offline_error is None else str(self.offline_error)

    # --- what a role adds -----------------------------------------------------------------

    def _flushed(self) -> None:
        """More of the log is on disk."""

    def _turned_away(self, error: PartitionOffline) -> None:
        """Nobody is served here any more."""

    # --- failing --------------------------------------------------------------------------

    def go_offline(self, error: PartitionOffline) -> None:
        if self.offline_error is not None:
            return
        logger.error("partition %s is offline: %s", self.name, error)
        self._turn_away(error)

    def give_up(self, reason: str) -> PartitionOffline:
        """Nobody can work with what is stored here: the error to raise, now and from now on."""
        error = PartitionOffline(
            f"{self.name}: {reason}; see `goqueue data check` with the broker stopped"
        )
        self.go_offline(error)
        return error

    def _turn_away(self, error: PartitionOffline) -> None:
        self.offline_error = error
        self._turned_away(error)

    # --- copies of what the leader has ----------------------------------------------------

    def _append_copied(self, data: Buffer, batches: Sequence[PlacedBatch]) -> None:
        """Batches as they are, with what their headers tell."""
        log, now_ms = self.log, self.clock_ms()
        segment_count, last_epoch = log.segment_count, log.epochs.latest
        try:
            append_batches(log, self.ledger, self.lanes, data, batches, now_ms=now_ms)
        except PartitionOffline as error:
            if log.offline_reason is not None:
                self.go_offline(error)
            raise
        if log.segment_count != segment_count:
            self.save_ledgers()
        self.counts.bytes_copied += len(data)
        self.flushes.appended(log.config.fsync_policy, log.config.flush_ms)
        if log.epochs.latest != last_epoch:
            self.flushes.start()

    async def flushed_to(self, offset: int) -> None:
        """Return when everything below `offset` is on disk, or the partition is offline."""
        while self.log.flushed_offset < offset and self.offline_error is None:
            self.flushes.start()
            await self.flushes.ended()

    async def _cut(self, cut: Callable[[], None], *, from_offset: int) -> None:
        """Change the log in a thread, and what was noted of what goes: all from this offset on."""
        loop = asyncio.get_running_loop()
        self._cutting = loop.create_future()
        try:
            await uninterrupted(self._cut_undisturbed(cut, from_offset))
        finally:
            self._cutting.set_result(None)
            self._cutting = None

    async def _cut_undisturbed(self, cut: Callable[[], None], from_offset: int) -> None:
        if self.compacting is not None:
            self.compacting.cancel()
            await asyncio.wait([self.compacting])
        if self._disk_work:
            await asyncio.wait(self._disk_work)

        def work() -> None:
            is_concerned = self.ledger.is_concerned(from_offset)
            cut()
            if is_concerned:
                self.ledger.rebuild()

        try:
            await asyncio.get_running_loop().run_in_executor(self.readers, work)
            self.lanes.cut()
        except PartitionOffline as error:
            self.go_offline(error)
            raise
        except (OSError, GoQueueError) as error:
            raise self.give_up(f"cannot go on after its log was cut: {error}") from error

    # --- upkeep ---------------------------------------------------------------------------

    def _flush_done(self) -> None:
        log = self.log
        config = log.config
        if log.flushed_offset < log.log_end_offset:
            self.flushes.appended(config.fsync_policy, config.flush_ms)
        if self.ledger.is_snapshot_due:
            self._save_ledgers(durable=False)
        self._flushed()

    def save_ledgers(self) -> None:
        """When a segment is full, write down what we know: a restart then reads one at most."""
        self._save_ledgers(durable=True)
        # Without this, a log that is never flushed would be scanned whole after a crash.
        self.flushes.start()

    def _save_ledgers(self, *, durable: bool) -> None:
        for write in (self.ledger.snapshot(durable=durable), self.lanes.snapshot(durable=durable)):
            if write is not None:
                self._in_thread(write).add_done_callback(self._ledger_saved)

    def _ledger_saved(self, saving: "asyncio.Future[None]") -> None:
        if not saving.cancelled() and saving.exception() is not None:
            logger.warning("%s: no snapshot beside the log: %s", self.name, saving.exception())

    async def purge_deleted(self) -> None:
        """Delete the files that retention left: they take syncs of the disk."""
        if self.is_at_rest and self.log.has_deleted:
            await self.on_disk(self.log.purge_deleted, self.clock_ms())

    async def on_disk(self, work: Callable[[int], None], argument: int) -> None:
        """In a thread; `retire` waits for it, and so does whoever cuts the log."""
        await self._in_thread(lambda: work(argument))

    def _in_thread(self, work: Callable[[], None]) -> "asyncio.Future[None]":
        running = asyncio.get_running_loop().run_in_executor(self.readers, work)
        self._disk_work.add(running)
        running.add_done_callback(self._disk_work.discard)
        return running

    def roll_if_old(self) -> None:
        """Close the active segment if it is time, so that compaction reaches its records."""
        try:
            if self.log.roll_if_old(self.clock_ms()):
                self.save_ledgers()
        except PartitionOffline as error:
            if self.log.offline_reason is not None:
                self.go_offline(error)

    def reconfigure(self, config: TopicConfig, trace: PartitionTrace | None) -> None:
        self.log.reconfigure(config)
        self.trace = trace
        self.flushes.cancel()
        if self.log.flushed_offset < self.log.log_end_offset:
            self.flushes.appended(config.fsync_policy, config.flush_ms)

    def close_files(self) -> LogEnd:
        """Blocking, after `retire`: everything is on disk on return, or an error."""
        self.log.close()
        self.ledger.close()
        self.lanes.close()
        return LogEnd(self.log.log_start_offset, self.log.log_end_offset)

    def let_go(self) -> None:
        """After `retire`: close the files as they are. The next start verifies them."""
        self.log.let_go()

    def dissolve(self) -> None:
        """After its files were deleted. Its parts refer to each other: they would stay in memory
        until all of it is looked through, which hardly ever happens."""
        self.trace = None
        self.flushes.detach()
        if self.offline_error is not None:
            self.offline_error.__traceback__ = None

    def stop_taking(self) -> None:
        """No more requests, and no more flushes. Of many partitions, all before the first is
        retired: it would wait for the flushes of the others.
        """
        self._turn_away(self.offline_error or PartitionOffline(f"{self.name} is closed"))
        self.flushes.end()

    async def retire(self) -> None:
        """As `stop_taking`, and wait for the end of what runs in the background."""
        if not self.flushes.is_over:
            self.stop_taking()
        while self._cutting is not None:
            await asyncio.wait([self._cutting])
        if self.compacting is not None:
            self.compacting.cancel()
            await asyncio.wait([self.compacting])
        if self._disk_work:
            await asyncio.wait(self._disk_work)
        await self.flushes.settle()
