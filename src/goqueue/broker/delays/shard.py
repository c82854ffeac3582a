"""Runs the delayed messages of one partition of a topic, which this node leads.

They are kept in the topic's companion (`model/companions.py`), in the partition of the same number.
That log is the truth. Every change is appended to it, and then replayed into the machine.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.indexed import IndexedDelays
from goqueue.broker.delays.log import DelayLog
from goqueue.broker.delays.open_indexes import OpenIndexes
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.commits import until_committed
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.slices import InHaste
from goqueue.model.delays import FIRST_NUMBER
from goqueue.model.errors import Conflict, GoQueueError
from goqueue.model.records import NewRecord
from goqueue.state.delays.held import HeldPart
from goqueue.state.delays.machine import DelayMachine, Origin
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import (
    NO_SPLIT,
    Cancelled,
    Held,
    HeldEnded,
    Note,
    Numbered,
    Originated,
    ProducerTaken,
    Scheduled,
    TargetKey,
    note_record,
    pack_messages,
)

logger = logging.getLogger(__name__)

# Between two slices of the index.
INDEX_PAUSE_MS: Final = 4
# A commit takes milliseconds. Where other replicas are missing, the index is left as it is: who
# lists messages, or stops the broker, waits for it.
INDEX_COMMIT_TIMEOUT_MS: Final = 5_000
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
        open_indexes: OpenIndexes,
        stood_by: IndexedDelays | None = None,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stood_by` is what this node replayed while another one led, if it did. While `is_held`,
        somebody copies the log: nothing of it is dropped."""
        self.log = DelayLog(partition)
        self.figures = figures
        self.clock_ms = clock_ms
        self._threads = threads
        self._producer_ids = producer_ids
        self._is_cold = stood_by is None
        self._delays = stood_by or IndexedDelays(
            partition.log, clock_ms=clock_ms, threads=threads, open_indexes=open_indexes
        )
        self._needs_producer = True
        self._is_held = is_held

    @property
    def number(self) -> int:
        return self.log.partition.name.partition

    @property
    def machine(self) -> DelayMachine:
        return self._delays.machine

    @property
    def producer_id(self) -> int:
        assert self.machine.producer_id is not None
        return self.machine.producer_id

    @property
    def next_due_ms(self) -> int | None:
        """When the next message falls due; too early if that one was cancelled."""
        return self._delays.next_due_ms

    def take_overdue(self) -> "deque[int]":
        """Numbers of messages that fell due before this node led, in order."""
        overdue, self._delays.overdue = self._delays.overdue, deque()
        return overdue

    # --- recovery -------------------------------------------------------------------------

    async def load(self) -> None:
        partition, haste = self.log.partition, InHaste()
        end = partition.log_end_offset
        if partition.leading is not None:
            self._delays.committed = self._committed
        has_begun = not self._is_cold or await self._delays.begin(haste)
        await self._delays.follow(end, haste)
        # Nothing is delivered on the word of records that another leader may cut off.
        await until_committed(partition, end)
        first = self.machine.loaded()
        if first is not None:
            self.note(first)
        # Without an index the last sequence may be unknown: a new producer begins at 0.
        self._needs_producer = not has_begun or self.machine.producer_id is None

    async def _committed(self, offset: int) -> None:
        await self.log.partition.wait_committed(offset, INDEX_COMMIT_TIMEOUT_MS)

    async def ensure_producer(self) -> None:
        """To be called before messages are claimed: until then nothing is written for a start."""
        if self._needs_producer:
            await self.take_producer_id()

    async def take_producer_id(self) -> None:
        await self._producer_ids.refill()
        producer_id = self._producer_ids.take()
        if producer_id is None:
            raise Conflict("no producer id is at hand; try again")
        self.note(ProducerTaken(producer_id))
        self._needs_producer = False

    async def close(self) -> None:
        """Leave an index of about the end, so that the next start replays little."""
        try:
            if self._delays.is_index_worth_while:
                await self.update_index()
        except GoQueueError as error:
            logger.warning("the next start of %s takes longer: %s", self.log.partition.name, error)
        await self._delays.close()

    async def abandon(self) -> None:
        """Another node leads it now: let go of the index as it is."""
        await self._delays.close()

    # --- changes --------------------------------------------------------------------------

    def note(self, *notes: Note) -> int:
        """Write notes down and act on them; returns the end of the log."""
        self.log.append([note_record(note) for note in notes], self.clock_ms())
        for note in notes:
            self.machine.replay(note)
        self._delays.replayed(self.log.end_offset)
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
        self._delays.replayed(self.log.end_offset)
        return range(first, first + len(messages))

    def hold(
        self, origin: Origin, messages: Sequence[tuple[NewRecord, int]], split_at_ms: int
    ) -> None:
        """Append what the end of a transaction decides about."""
        note = Held(*origin.target, *origin[1:], pack_messages(messages), split_at_ms)
        offset = self.log.append([note_record(note)], self.clock_ms())
        self.machine.replay_held(note, offset)
        self._delays.replayed(self.log.end_offset)

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
        ended = HeldEnded(*target, producer_id, part.base_sequence, part.producer_epoch)
        self.note(ended)
        return numbers, messages

    def cancel(self, entry: Entry) -> int:
        """Cancel a message that is pending; returns the end of the log."""
        target = self.machine.targets[entry.target].key
        self.figures.cancellation(target.topic_id)
        return self.note(Cancelled(*target, entry.number, entry.due_ms, entry.size_bytes))

    async def cancel_indexed(self, number: int, is_meant: Callable[[Entry], bool]) -> int | None:
        """As `cancel`, for one that is not in memory; None if none waits that is meant."""

        def cancel(entry: Entry | None) -> int | None:
            machine = self.machine
            if number in machine.claimed or number in machine.pending:
                # It was taken into memory while we waited for the index.
                entry = machine.find(number)
            elif entry is not None and not machine.waits(entry):
                return None
            return None if entry is None or not is_meant(entry) else self.cancel(entry)

        return await self._delays.find_indexed(number, cancel)

    async def flush(self, partition: Partition) -> None:
        """Bring what a target was given to the disk."""
        await asyncio.get_running_loop().run_in_executor(self._threads, partition.log.flush)

    # --- index ----------------------------------------------------------------------------

    async def page(self, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages that wait, after (due, number), in order."""
        if self._delays.does_without_index:
            return self._delays.first_in_memory(after, limit)
        await self.update_index()
        return await self._delays.page(after, limit)

    async def entries(self, target: int, after: int, limit: int) -> list[Entry]:
        """Messages for a target, those that are claimed among them, by number after `after`."""
        await self.update_index()
        return await self._delays.entries(target, after, limit)

    async def numbers(self) -> set[int]:
        """Of all messages that wait or are claimed."""
        if self._delays.does_without_index:
            return {*self.machine.pending, *self.machine.far, *self.machine.claimed}
        await self.update_index()
        return await self._delays.numbers()

    async def update_index(self, *, pause_ms: int = 0) -> None:
        """Bring the index to the log's end as of now. `IndexUnusable` if that fails."""
        await self._delays.update(pause_ms=pause_ms)

    # --- upkeep ---------------------------------------------------------------------------

    @property
    def is_upkeep_due(self) -> bool:
        return self._delays.is_index_due or self._delays.is_cooling or self._is_dirty

    async def upkeep(self) -> None:
        """What comes round every second or so."""
        if self._delays.is_index_due:
            await self.update_index(pause_ms=INDEX_PAUSE_MS)
        if self._delays.is_cooling:
            await self._delays.warm()
        if self._is_dirty and not self._is_held():
            await self.clean()

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
        floor = await self._delays.first_needed()
        if floor > log.log_start_offset:
            # Who begins at the new start must not give the numbers again of what is gone.
            end = self.note(Numbered(self.machine.next_number))
            await self.log.committed(end)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, log.save_start, floor)
            log.advance_start(floor)

    async def _write_again(self) -> None:
        oldest = await self._delays.oldest(CLEAN_MESSAGES)
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
                self._delays.replayed(self.log.end_offset)
            left_bytes -= sum(entry.size_bytes for entry in part)
            if left_bytes < 0:
                return

    def _key(self, entry: Entry) -> TargetKey:
        return self.machine.targets[entry.target].key
