"""The delayed messages that one log tells of: those due soon in memory, all in an index on disk.

They are replayed from the log. The index follows at leisure, in a thread; it says how far it
stands, and a start goes on from there. Where that would save a start little there is none, and all
messages wait in memory.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from heapq import nsmallest
from typing import Final, ParamSpec, TypeVar

from goqueue.broker.delays.index import DelayIndex, IndexUnusable
from goqueue.broker.delays.log import LocatedHeld, StoredMessage, stored_item
from goqueue.broker.delays.open_indexes import OpenIndexes
from goqueue.broker.delays.position import IndexPosition, position_of, restored
from goqueue.broker.runtime.replaying import LogReplay
from goqueue.broker.runtime.slices import Slices
from goqueue.model.records import StoredRecord
from goqueue.state.delays.machine import DelayMachine, Unindexed
from goqueue.state.delays.pending import Entry
from goqueue.storage.log import PartitionLog

P = ParamSpec("P")
T = TypeVar("T")

LONG_AGO_MS: Final = -(1 << 62)
# Messages due later than this wait on disk only. It is what the wheel's level 2 reaches to, so that
# memory is spent on the next hours and a start need not load a year.
HOT_MS: Final = (1 << 20) * 10
# What is due in the next minute beyond is taken in when the minute has passed: a little at a time.
WARM_STEP_MS: Final = 60_000
# Rows written or read at once: about a millisecond of the event loop.
SLICE: Final = 1_000
# Far messages that wait in memory for the index to take them.
FAR_MAX: Final = 50_000
INDEX_CHANGES: Final = 50_000
INDEX_MIN_GAP_MS: Final = 5_000
INDEX_INTERVAL_MS: Final = 60_000
# Fewer records than this and fewer bytes are replayed in some milliseconds. There may be thousands
# of logs with a message or two: a table for each would cost three descriptors and 150 KB of memory.
INDEX_WORTH_RECORDS: Final = 1_000
INDEX_WORTH_BYTES: Final = 1024 * 1024


class IndexedDelays:
    def __init__(
        self,
        log: PartitionLog,
        *,
        clock_ms: Callable[[], int],
        threads: Executor,
        open_indexes: OpenIndexes,
    ) -> None:
        self._log = log
        self._open_indexes = open_indexes
        self._clock_ms = clock_ms
        self._threads = threads
        self._replay = LogReplay(log, threads, self._take)
        self._index = DelayIndex(log.path)
        # The index is for one at a time.
        self._using = asyncio.Lock()
        self._indexed_at_ms = clock_ms()
        self._indexed_offset = 0
        self._far_earliest_ms: int | None = None
        now_ms = clock_ms()
        self.machine = DelayMachine(now_ms=now_ms, hot_until_ms=now_ms + HOT_MS)
        # Numbers of messages that fell due while nobody was to deliver them, in order.
        self.overdue: deque[int] = deque()
        # Waits until an offset is committed, where that is not known to be so.
        self.committed: Callable[[int], Awaitable[None]] | None = None

    @property
    def next_offset(self) -> int:
        """How far the log was replayed."""
        return self._replay.next_offset

    def replayed(self, end_offset: int) -> None:
        """What was appended below is known to the machine."""
        self._replay.next_offset = end_offset

    async def _run(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        """Whoever is cancelled waits for the end of its work, too."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait((running,))
            raise

    @asynccontextmanager
    async def _index_in_use(self) -> AsyncIterator[None]:
        async with self._using:
            try:
                yield
            finally:
                if self._index.has_files_open:
                    self._open_indexes.used(self)

    # --- replaying ------------------------------------------------------------------------

    async def begin(self, slices: Slices) -> bool:
        """Begin where the index stands; False if there is none, and the log is to be read whole."""
        has_begun = False
        if self._index.exists():
            async with self._open_indexes.beginning, self._index_in_use():
                has_begun = await self._begin_with_index(slices)
        if not has_begun:
            self._indexed_offset = self._log.log_start_offset
            self.replayed(self._indexed_offset)
        return has_begun

    async def _begin_with_index(self, slices: Slices) -> bool:
        log = self._log
        position = await self._run(
            self._index.open, log.log_start_offset, log.log_end_offset, log.epochs
        )
        if position is None:
            return False
        await self._restore(position, slices)
        self._indexed_offset = position.next_offset
        self.replayed(position.next_offset)
        return True

    async def _restore(self, position: IndexPosition, slices: Slices) -> None:
        now_ms = self._clock_ms()
        until_ms = max(position.hot_until_ms, now_ms + HOT_MS)
        self.machine = machine = restored(position, now_ms=now_ms, hot_until_ms=until_ms)
        after = (LONG_AGO_MS, 0)
        while rows := await self._run(self._index.due_before, until_ms, after, SLICE):
            async with slices.slice():
                machine.restore_near(rows)
            after = (rows[-1].due_ms, rows[-1].number)
        for target, count, size_bytes in await self._run(self._index.totals_from, until_ms):
            machine.restore_far(target, count, size_bytes)
        self._far_earliest_ms = await self._run(self._index.earliest_from, until_ms)

    async def follow(self, up_to: int, slices: Slices) -> int:
        """Replay the log below `up_to`; returns how many records that were."""
        count = 0
        while True:
            count += await self._replay.follow(up_to, slices)
            if not self._is_full:
                return count
            await self.update()

    def _take(self, record: StoredRecord) -> bool:
        item = stored_item(record)
        if isinstance(item, StoredMessage):
            self.machine.replay_scheduled(*item)
        elif isinstance(item, LocatedHeld):
            self.machine.replay_held(*item)
        else:
            self.machine.replay(item)
        return self._is_full

    @property
    def _is_full(self) -> bool:
        return len(self.machine.far) > FAR_MAX and self.machine.is_between_groups

    # --- the index ------------------------------------------------------------------------

    @property
    def is_index_worth_while(self) -> bool:
        """Whether a start would have more than a little to replay as the index stands now."""
        return (
            self.next_offset - self._indexed_offset >= INDEX_WORTH_RECORDS
            or self.machine.unindexed_bytes >= INDEX_WORTH_BYTES
        )

    @property
    def is_index_due(self) -> bool:
        age_ms = self._clock_ms() - self._indexed_at_ms
        is_due = (
            (self.machine.changes >= INDEX_CHANGES and age_ms >= INDEX_MIN_GAP_MS)
            or len(self.machine.far) >= FAR_MAX
            or (age_ms >= INDEX_INTERVAL_MS and self.is_index_worth_while)
        )
        return is_due and self.machine.is_between_groups

    @property
    def does_without_index(self) -> bool:
        """All messages are in memory, and they are few."""
        return (
            not self._index.is_made and not self._using.locked() and not self.is_index_worth_while
        )

    async def update(self, *, pause_ms: int = 0) -> None:
        """Bring the index to what was replayed as of now. `IndexUnusable` if that fails.

        With `pause_ms` between the slices it takes longer and leaves room for deliveries. Not in
        the middle of a group: the index does not know which of its messages belong together.
        """
        async with self._index_in_use():
            end = self.next_offset
            if end == self._indexed_offset and not self.machine.changes:
                return
            if not self.machine.is_between_groups:
                return  # more was replayed while somebody else used the index
            epoch, _ = self._log.epochs.covering(end - 1)
            position = position_of(self.machine, end, epoch)
            work = self.machine.begin_indexing()
            self._indexed_at_ms = self._clock_ms()
            succeeded = False
            try:
                await self._write(work, position, pause_ms=pause_ms)
                succeeded = True
            except sqlite3.Error as error:
                raise IndexUnusable(
                    f"index of {self._log.name} cannot be written: {error}"
                ) from error
            finally:
                self.machine.end_indexing(work, succeeded=succeeded)
                if not succeeded:
                    await self._run(self._index.roll_back)

    async def _write(self, work: Unindexed, position: IndexPosition, *, pause_ms: int) -> None:
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
        # The index must never know what the log has lost, or what another leader may cut off.
        await self._run(self._log.flush)
        if self.committed is not None:
            await self.committed(position.next_offset)
        await self._run(index.commit, position)
        self._indexed_offset = position.next_offset
        self._far_earliest_ms = await self._run(index.earliest_from, machine.hot_until_ms)

    def first_in_memory(self, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages that wait, after (due, number), in order, where there is no index."""
        waiting = self.machine.in_memory()
        later = (entry for entry in waiting if (entry.due_ms, entry.number) > after)
        return nsmallest(limit, later, key=lambda entry: (entry.due_ms, entry.number))

    async def page(self, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages of the index that wait, after (due, number), in order."""
        found: list[Entry] = []
        async with self._index_in_use():
            while len(found) < limit and self._index.is_made:
                rows = await self._run(self._index.page, after, limit)
                found += filter(self.machine.waits, rows)
                if len(rows) < limit:
                    break
                after = (rows[-1].due_ms, rows[-1].number)
        return found[:limit]

    async def entries(self, target: int, after: int, limit: int) -> list[Entry]:
        """Messages of the index for a target, by number after `after`."""
        async with self._index_in_use():
            if not self._index.is_made:
                return []
            return await self._run(self._index.of_target, target, after, limit)

    async def numbers(self) -> set[int]:
        """Of all messages of the index."""
        async with self._index_in_use():
            return await self._run(self._index.numbers) if self._index.is_made else set()

    async def find_indexed(self, number: int, use: Callable[[Entry | None], T]) -> T:
        """What `use` makes of a message that the index has; nothing changes in between."""
        async with self._index_in_use():
            is_made = self._index.is_made
            return use(await self._run(self._index.find, number) if is_made else None)

    async def oldest(self, limit: int) -> list[Entry]:
        """Messages by their place in the log."""
        async with self._index_in_use():
            return await self._run(self._index.oldest, limit) if self._index.is_made else []

    async def first_needed(self) -> int:
        """The log must be kept from this offset on."""
        async with self._index_in_use():
            is_made = self._index.is_made
            first = await self._run(self._index.first_offset) if is_made else None
            end = self._indexed_offset
        held = self.machine.held.first_offset()
        return min(each for each in (first, held, end) if each is not None)

    async def rest(self) -> None:
        """Let go of the index's files until they are needed again."""
        async with self._using:
            if self._index.has_files_open:
                await self._run(self._index.rest)

    async def close(self) -> None:
        async with self._using:
            if self._index.has_files_open:
                await self._run(self._index.close)
            self._index.close()
        self._open_indexes.closed(self)

    # --- time -----------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When the next message falls due; too early if that one was cancelled."""
        far = [entry.due_ms for entry in self.machine.far.values()]
        candidates = [self.machine.pending.wheel.earliest_due_ms(), self._far_earliest_ms, *far]
        return min((due_ms for due_ms in candidates if due_ms is not None), default=None)

    @property
    def is_cooling(self) -> bool:
        """Whether `warm` has something to do."""
        return self._clock_ms() + HOT_MS - WARM_STEP_MS >= self.machine.hot_until_ms

    async def warm(self) -> None:
        """Take what falls due in the next hours into memory."""
        async with self._index_in_use():
            start_ms, until_ms = self.machine.hot_until_ms, self._clock_ms() + HOT_MS
            earliest_ms = self._far_earliest_ms
            if earliest_ms is None or earliest_ms >= until_ms:
                # The index has nothing that comes closer.
                self.machine.warm((), until_ms)
                return
            rows = await self._run(self._index.due_between, start_ms, until_ms)
            self.machine.warm(rows, until_ms)
            self._far_earliest_ms = await self._run(self._index.earliest_from, until_ms)

    def set_overdue_aside(self, due_before_ms: int, limit: int) -> None:
        """While another node delivers: turn the wheel, which would otherwise be far behind when
        this one has to. Nearly all that is due was delivered by then, and is gone."""
        pending = self.machine.pending
        self.overdue += pending.pop_due(due_before_ms, limit)
        self.overdue = deque(number for number in self.overdue if number in pending)


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), SLICE):
        yield items[start : start + SLICE]
