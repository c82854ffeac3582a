"""Going along a log, record by record, to bring what is in memory to what the log tells."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Final, Generic, TypeVar

from goqueue.broker.runtime.slices import Slice, Slices
from goqueue.broker.runtime.stored_records import Overtaken, making_sense
from goqueue.broker.runtime.table import StateTable
from goqueue.model.batch import read_header
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.records import StoredRecord, open_records
from goqueue.state.machine import Machine, StateRecord
from goqueue.storage.log import LogRead, PartitionLog

M = TypeVar("M", bound=Machine)

# Bounds what one read holds in memory, and how long the event loop waits for it.
READ_BYTES: Final = 256 * 1024


class LogReplay:
    """`take` gets one record after another; when it returns True, `follow` returns, too."""

    def __init__(
        self, log: PartitionLog, threads: Executor, take: Callable[[StoredRecord], bool]
    ) -> None:
        self.log = log
        self.next_offset = log.log_start_offset
        self._threads = threads
        self._take = take

    async def follow(self, up_to: int, slices: Slices) -> int:
        """Take every record below `up_to`; returns how many that were.

        One that is stopped in between, also by cancelling it, can go on from where it was.
        """
        count = 0
        while self.next_offset < up_to:
            part = await self._read(up_to)
            if not part.data:
                break
            records = self._records(part.data)
            is_over = False
            while not is_over:
                async with slices.slice() as turn:
                    before = self.next_offset
                    with making_sense():
                        is_over, is_enough = self._take_some(records, turn)
                    count += self.next_offset - before
                if is_enough:
                    return count
            self.next_offset = part.next_offset
        return count

    def _take_some(self, records: Iterator[StoredRecord], turn: Slice) -> tuple[bool, bool]:
        """Whether no records are left, and whether it is enough."""
        take = self._take
        for record in records:
            is_enough = take(record)
            self.next_offset = record.offset + 1
            if is_enough:
                return False, True
            if turn.is_over:
                return False, False
        return True, False

    def _records(self, data: bytes) -> Iterator[StoredRecord]:
        """Those from `next_offset` on, without a gap; the log has verified them."""
        position = 0
        while position < len(data):
            header = read_header(data, position)
            end = position + header.size_bytes
            if header.is_control and header.base_offset <= self.next_offset:
                self.next_offset = max(self.next_offset, header.next_offset)
            elif not header.is_control:
                bounds = DecodingBounds.of_own(header.size_bytes)
                for record in open_records(data[position:end], bounds):
                    if record.offset == self.next_offset:
                        yield record
            if header.next_offset > self.next_offset:
                raise Overtaken(f"{self.log.name} has no record {self.next_offset} any more")
            position = end

    async def _read(self, up_to: int) -> LogRead:
        log, offset = self.log, self.next_offset
        try:
            return log.read(offset, READ_BYTES, up_to=up_to, at_least_one=True, may_block=False)
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads,
                lambda: log.read(
                    offset, READ_BYTES, up_to=up_to, at_least_one=True, may_block=True
                ),
            )


class StateReplay(LogReplay, Generic[M]):
    """A state machine on its way along its log."""

    def __init__(self, machine: M, log: PartitionLog, threads: Executor) -> None:
        super().__init__(log, threads, self._replay)
        self.machine = machine
        # That the state had when it was begun.
        self.entries = 0

    async def begin(self, up_to: int, slices: Slices) -> None:
        """Bring a new machine to `up_to`, by the newest snapshot and the log after it."""
        log = self.log
        loop = asyncio.get_running_loop()
        gone_before = log.compaction.tombstones_gone_before
        table = await loop.run_in_executor(self._threads, lambda: StateTable.load(log, up_to=up_to))
        if log.compaction.tombstones_gone_before != gone_before:
            # Some may be of what had been read before they went.
            raise Overtaken(f"tombstones of {log.name} were removed while it was read")
        entries = iter(table.entries.items())
        is_over = False
        while not is_over:
            async with slices.slice() as turn:
                with making_sense():
                    is_over = self._replay_some(entries, turn)
        self.next_offset, self.entries = table.next_offset, len(table.entries)

    def _replay_some(self, entries: Iterator[tuple[bytes, bytes]], turn: Slice) -> bool:
        """Whether no entries are left."""
        for key, value in entries:
            self.machine.replay(StateRecord(key, value))
            if turn.is_over:
                return False
        return True

    def _replay(self, record: StoredRecord) -> bool:
        if record.key is not None:
            self.machine.replay(StateRecord(record.key, record.value))
        return False
