"""Runs the delayed messages of one partition of `__delayed`: its log, its state, its index.

The log is the truth. Every change is appended to it, and then replayed into the machine. The index
follows at leisure, in a thread; a start reads the index and the log after it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.index import DelayIndex, IndexUnusable
from goqueue.broker.delays.log import DelayLog, LocatedHeld, StoredMessage
from goqueue.broker.delays.position import IndexPosition, position_of, restored
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.commits import until_committed
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.model.delays import FIRST_NUMBER
from goqueue.model.errors import Conflict, GoQueueError
from goqueue.model.records import NewRecord
from goqueue.state.delays.held import HeldPart
from goqueue.state.delays.machine import DelayMachine, Origin, Unindexed
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import (
    NO_SPLIT,
    Cancelled,
    Held,
    HeldEnded,
    Note,
    Originated,
    ProducerTaken,
    Scheduled,
    TargetKey,
    note_record,
    pack_messages,
)

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LONG_AGO_MS: Final = -(1 << 62)
# Messages due later than this wait on disk only. It is what the wheel's level 2 reaches to, so that
# memory is spent on the next hours and a start need not load a year.
HOT_MS: Final = (1 << 20) * 10
# What is due in the next minute beyond is taken in when the minute has passed: a little at a time.
WARM_STEP_MS: Final = 60_000
# Entries replayed or collected between two looks at the event loop.
SLICE: Final = 1_000
# Far messages that wait in memory for the index to take them.
FAR_MAX: Final = 50_000
INDEX_CHANGES: Final = 50_000
INDEX_MIN_GAP_MS: Final = 5_000
INDEX_INTERVAL_MS: Final = 60_000
# A slice takes about a millisecond of the event loop.
INDEX_PAUSE_MS: Final = 4
# The log may hold this much more than twice what is pending before it is cleaned.
CLEAN_SLACK_BYTES: Final = 64 * 1024 * 1024
# Messages that one round of cleaning writes again.
CLEAN_MESSAGES: Final = 20_000
CLEAN_BYTES: Final = 64 * 1024 * 1024
CLEAN_SLICE: Final = 500


class DelayShard:
    def __init__(
        self,
        partition: Partition,
        *,
        clock_ms: Callable[[], int],
        threads: Executor,
        producer_ids: ProducerIdSource,
        figures: DelayFigures,
    ) -> None:
        self.log = DelayLog(partition, threads)
        self.figures = figures
        self.clock_ms = clock_ms
        self._threads = threads
        self._producer_ids = producer_ids
        self._index = DelayIndex(partition.log.path)
        self._index_lock = asyncio.Lock()
        self._indexed_at_ms = clock_ms()
        self._indexed_offset = 0
        self._far_earliest_ms: int | None = None
        self.machine = DelayMachine(now_ms=clock_ms(), hot_until_ms=clock_ms() + HOT_MS)

    @property
    def number(self) -> int:
        return self.log.partition.name.partition

    @property
    def producer_id(self) -> int:
        assert self.machine.producer_id is not None
        return self.machine.producer_id

    async def _run(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        """The index is for one thread at a time: whoever is cancelled waits for its end, too."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait((running,))
            raise

    # --- recovery -------------------------------------------------------------------------

    async def load(self) -> None:
        log = self.log.partition.log
        end = log.log_end_offset
        position = await self._run(self._index.open, log.log_start_offset, end, log.epochs)
        offset = log.log_start_offset
        if position is not None:
            await self._restore(position)
            self._indexed_offset = position.next_offset
            offset = position.next_offset
        while offset < end:
            part, offset = await self._run(self.log.replay_part, offset, end)
            with making_sense():
                self._replay(part)
            if len(self.machine.far) > FAR_MAX:
                await self.update_index()
        # Nothing is delivered on the word of records that another leader may cut off.
        await until_committed(self.log.partition, end)
        first = self.machine.loaded()
        if first is not None:
            self.note(first)
        if position is None:
            # Without an index the last sequence may be unknown: a new producer begins at 0.
            await self.take_producer_id()

    def _replay(self, part: Iterable[StoredMessage | LocatedHeld | Note]) -> None:
        for item in part:
            if isinstance(item, StoredMessage):
                self.machine.replay_scheduled(*item)
            elif isinstance(item, LocatedHeld):
                self.machine.replay_held(*item)
            else:
                self.machine.replay(item)

    async def _restore(self, position: IndexPosition) -> None:
        now_ms = self.clock_ms()
        until_ms = max(position.hot_until_ms, now_ms + HOT_MS)
        self.machine = machine = restored(position, now_ms=now_ms, hot_until_ms=until_ms)
        rows = await self._run(self._index.due_between, LONG_AGO_MS, until_ms)
        for part in _slices(rows):
            machine.restore_near(part)
            await asyncio.sleep(0)
        for target, count, size_bytes in await self._run(self._index.totals_from, until_ms):
            machine.restore_far(target, count, size_bytes)
        self._far_earliest_ms = await self._run(self._index.earliest_from, until_ms)

    async def take_producer_id(self) -> None:
        await self._producer_ids.refill()
        producer_id = self._producer_ids.take()
        if producer_id is None:
            raise Conflict("no producer id is at hand; try again")
        self.note(ProducerTaken(producer_id))

    async def close(self) -> None:
        """Leave an index of the end, so that the next start replays nothing."""
        try:
            await self.update_index()
        except GoQueueError as error:
            logger.warning("the next start of %s takes longer: %s", self.log.partition.name, error)
        async with self._index_lock:
            await self._run(self._index.close)

    async def abandon(self) -> None:
        """Another node leads it now: let go of the index as it is."""
        async with self._index_lock:
            await self._run(self._index.close)

    # --- changes --------------------------------------------------------------------------

    def note(self, *notes: Note) -> int:
        """Write notes down and act on them; returns the end of the log."""
        self.log.append([note_record(note) for note in notes], self.clock_ms())
        for note in notes:
            self.machine.replay(note)
        return self.log.end_offset

    def schedule(
        self,
        target: TargetKey,
        messages: Sequence[tuple[NewRecord, int]],
        origin: Origin | None = None,
        split_at_ms: int = NO_SPLIT,
    ) -> range:
        """Append messages with their times, all or none; returns their numbers."""
        first = max(self.machine.next_number, FIRST_NUMBER)
        last = len(messages) - 1
        addressed = [
            (Scheduled(first + at, due_ms, target, last - at), message)
            for at, (message, due_ms) in enumerate(messages)
        ]
        notes = []
        if origin is not None:
            notes.append(Originated(*target, *origin[1:], split_at_ms))
        stored = self.log.append_messages(notes, addressed, self.clock_ms())
        for note in notes:
            self.machine.replay(note)
        for message in stored:
            self.machine.replay_scheduled(*message)
        return range(first, first + len(messages))

    def hold(
        self, origin: Origin, messages: Sequence[tuple[NewRecord, int]], split_at_ms: int
    ) -> None:
        """Append what the end of a transaction decides about."""
        note = Held(*origin.target, *origin[1:], pack_messages(messages), split_at_ms)
        offset = self.log.append([note_record(note)], self.clock_ms())
        self.machine.replay_held(note, offset)

    async def release(
        self, target: TargetKey, producer_id: int, part: HeldPart, *, commit: bool
    ) -> tuple[range, list[tuple[NewRecord, int]]]:
        """Schedule what was held, or forget it; returns what was scheduled, with its numbers.

        A crash between the two steps leaves it scheduled and held: its origin tells, as each part
        is ended before the next one is scheduled.
        """
        numbers, messages = range(0), []
        origin = Origin(target, producer_id, part.producer_epoch, part.base_sequence)
        if commit and not self.machine.is_known(origin):
            messages = await self.log.read_held(part.offset, part.size_bytes)
            numbers = self.schedule(target, messages, origin)
        self.note(HeldEnded(*target, producer_id, part.base_sequence))
        return numbers, messages

    def cancel(self, entry: Entry) -> int:
        """Cancel a message that is pending; returns the end of the log."""
        target = self.machine.targets[entry.target].key
        self.figures.cancellation(target.topic_id)
        return self.note(Cancelled(*target, entry.number, entry.due_ms, entry.size_bytes))

    async def cancel_indexed(self, number: int, is_meant: Callable[[Entry], bool]) -> int | None:
        """As `cancel`, for one that is not in memory; None if none waits that is meant."""
        async with self._index_lock:
            entry = await self._run(self._index.find, number)
            if number not in self.machine.claimed and number not in self.machine.pending:
                if entry is None or not self.machine.waits(entry) or not is_meant(entry):
                    return None
                return self.cancel(entry)
            # It was taken into memory while we waited for the index.
            entry = self.machine.find(number)
            return None if entry is None or not is_meant(entry) else self.cancel(entry)

    async def flush(self, partition: Partition) -> None:
        """Bring what a target was given to the disk."""
        await self._run(partition.log.flush)

    # --- index ----------------------------------------------------------------------------

    async def page(self, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages that wait, after (due, number), in order."""
        await self.update_index()
        async with self._index_lock:
            found: list[Entry] = []
            while len(found) < limit:
                rows = await self._run(self._index.page, after, limit)
                found += filter(self.machine.waits, rows)
                if len(rows) < limit:
                    break
                after = (rows[-1].due_ms, rows[-1].number)
            return found[:limit]

    async def entries(self, target: int, after: int, limit: int) -> list[Entry]:
        """Messages for a target, those that are claimed among them, by number after `after`."""
        await self.update_index()
        async with self._index_lock:
            return await self._run(self._index.of_target, target, after, limit)

    async def numbers(self) -> set[int]:
        """Of all messages that wait or are claimed."""
        await self.update_index()
        async with self._index_lock:
            return await self._run(self._index.numbers)

    async def update_index(self, *, pause_ms: int = 0) -> None:
        """Bring the index to the log's end as of now. `IndexUnusable` if that fails.

        With `pause_ms` between the slices it takes longer and leaves room for deliveries.
        """
        async with self._index_lock:
            if not self.machine.changes:
                return
            end = self.log.end_offset
            epoch, _ = self.log.partition.log.epochs.covering(end - 1)
            position = position_of(self.machine, end, epoch)
            work = self.machine.begin_indexing()
            self._indexed_at_ms = self.clock_ms()
            succeeded = False
            try:
                await self._write_index(work, position, pause_ms=pause_ms)
                succeeded = True
            except sqlite3.Error as error:
                raise IndexUnusable(
                    f"index of {self.log.partition.name} cannot be written: {error}"
                ) from error
            finally:
                self.machine.end_indexing(work, succeeded=succeeded)
                if not succeeded:
                    await self._run(self._index.roll_back)

    async def _write_index(
        self, work: Unindexed, position: IndexPosition, *, pause_ms: int
    ) -> None:
        index, machine = self._index, self.machine
        await self._run(index.begin)
        for numbers in _slices(work.numbers):
            await self._run(index.insert, machine.near_rows(numbers))
            await asyncio.sleep(pause_ms / 1000)
        await self._run(index.insert, machine.near_rows(list(work.moved)))
        for entries in _slices(list(work.far.values())):
            await self._run(index.insert, [field for entry in entries for field in entry])
            await asyncio.sleep(pause_ms / 1000)
        for numbers in _slices(list(work.settled)):
            await self._run(index.delete, numbers)
            await asyncio.sleep(pause_ms / 1000)
        await self._run(index.drop, work.dropped)
        # The index must never know what the log has lost.
        await self._run(self.log.partition.log.flush)
        await self._run(index.commit, position)
        self._indexed_offset = position.next_offset
        self._far_earliest_ms = await self._run(index.earliest_from, machine.hot_until_ms)

    @property
    def next_due_ms(self) -> int | None:
        """When the next message falls due; too early if that one was cancelled."""
        far = [entry.due_ms for entry in self.machine.far.values()]
        candidates = [self.machine.pending.wheel.earliest_due_ms(), self._far_earliest_ms, *far]
        return min((due_ms for due_ms in candidates if due_ms is not None), default=None)

    # --- upkeep ---------------------------------------------------------------------------

    async def upkeep(self) -> None:
        """What comes round every second or so."""
        now_ms = self.clock_ms()
        machine = self.machine
        age_ms = now_ms - self._indexed_at_ms
        if (
            (machine.changes >= INDEX_CHANGES and age_ms >= INDEX_MIN_GAP_MS)
            or len(machine.far) >= FAR_MAX
            or age_ms >= INDEX_INTERVAL_MS
        ):
            await self.update_index(pause_ms=INDEX_PAUSE_MS)
        if now_ms + HOT_MS - WARM_STEP_MS >= machine.hot_until_ms:
            await self._warm(now_ms + HOT_MS)
        if self._is_dirty:
            await self.clean()

    async def _warm(self, until_ms: int) -> None:
        """Take what falls due in the next hours into memory."""
        async with self._index_lock:
            start_ms = self.machine.hot_until_ms
            rows = await self._run(self._index.due_between, start_ms, until_ms)
            self.machine.warm(rows, until_ms)
            self._far_earliest_ms = await self._run(self._index.earliest_from, until_ms)

    async def clean(self) -> None:
        """Drop the part of the log below the oldest pending message.

        Where old ones stand in the way they are written again at the end, so that the log stays
        within a multiple of what is pending however long that waits.
        """
        await self.update_index()
        await self._trim()
        if self._is_dirty:
            await self._write_again()
            await self.update_index()
            await self._trim()

    @property
    def _is_dirty(self) -> bool:
        log = self.log.partition.log
        return log.size_bytes > 2 * self.machine.live_bytes + CLEAN_SLACK_BYTES

    async def _trim(self) -> None:
        log = self.log.partition.log
        async with self._index_lock:
            first = await self._run(self._index.first_offset)
            end = self._indexed_offset
        held = self.machine.held.first_offset()
        floor = min(each for each in (first, held, end) if each is not None)
        if floor > log.log_start_offset:
            await self._run(log.save_start, floor)
            log.advance_start(floor)

    async def _write_again(self) -> None:
        async with self._index_lock:
            oldest = await self._run(self._index.oldest, CLEAN_MESSAGES)
        left_bytes = CLEAN_BYTES
        for start in range(0, len(oldest), CLEAN_SLICE):
            part = [
                entry for entry in oldest[start : start + CLEAN_SLICE] if self.machine.waits(entry)
            ]
            messages = await self.log.read(part)
            again = [
                (
                    Scheduled(entry.number, entry.due_ms, self._key(entry), 0),
                    messages[entry.number],
                )
                for entry in part
                if self.machine.waits(entry)
            ]
            if again:
                for message in self.log.append_messages((), again, self.clock_ms()):
                    self.machine.replay_scheduled(*message)
            left_bytes -= sum(entry.size_bytes for entry in part)
            if left_bytes < 0:
                return

    def _key(self, entry: Entry) -> TargetKey:
        return self.machine.targets[entry.target].key


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), SLICE):
        yield items[start : start + SLICE]
