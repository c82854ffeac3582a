"""A state machine and its log: how far the machine has got along it."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Final, Generic, TypeVar

from goqueue.broker.runtime.slices import Slice, Slices
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.broker.runtime.table import StateTable
from goqueue.model.batch import read_header
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.records import StoredRecord, open_records
from goqueue.state.machine import Machine, StateRecord
from goqueue.storage.log import LogRead, PartitionLog

M = TypeVar("M", bound=Machine)

# Bounds what one read holds in memory, and how long the event loop waits for it.
READ_BYTES: Final = 256 * 1024


class Overtaken(Exception):
    """What comes next was compacted before it was replayed: what led from the machine's state to
    what is there now may be missing. A new machine must begin."""


class StateReplay(Generic[M]):
    def __init__(self, machine: M, log: PartitionLog, threads: Executor) -> None:
        self.machine = machine
        self.next_offset = log.log_start_offset
        # That the state had when it was begun.
        self.entries = 0
        self._log = log
        self._threads = threads

    async def begin(self, up_to: int, slices: Slices) -> None:
        """Bring a new machine to `up_to`, by the newest snapshot and the log after it."""
        log = self._log
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
                    is_over = self._replay_entries(entries, turn)
        self.next_offset, self.entries = table.next_offset, len(table.entries)

    async def follow(self, up_to: int, slices: Slices) -> int:
        """Replay every record below `up_to` as it comes; returns how many that were.

        One that is stopped in between can go on from where it was.
        """
        count = 0
        while self.next_offset < up_to:
            part = await self._read(up_to)
            if not part.data:
                break
            if self._log.compaction.first_dirty_offset > self.next_offset:
                raise Overtaken(f"{self._log.name} was compacted beyond {self.next_offset}")
            records = _records(part.data)
            is_over = False
            while not is_over:
                async with slices.slice() as turn:
                    before = self.next_offset
                    with making_sense():
                        is_over = self._replay(records, turn)
                    count += self.next_offset - before
            self.next_offset = part.next_offset
        return count

    def _replay_entries(self, entries: Iterator[tuple[bytes, bytes]], turn: Slice) -> bool:
        """Until the turn is over; True if nothing is left."""
        for key, value in entries:
            self.machine.replay(StateRecord(key, value))
            if turn.is_over:
                return False
        return True

    def _replay(self, records: Iterator[StoredRecord], turn: Slice) -> bool:
        machine = self.machine
        for record in records:
            if record.offset < self.next_offset:
                continue
            if record.key is not None:
                machine.replay(StateRecord(record.key, record.value))
            self.next_offset = record.offset + 1
            if turn.is_over:
                return False
        return True

    async def _read(self, up_to: int) -> LogRead:
        log, offset = self._log, self.next_offset
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


def _records(data: bytes) -> Iterator[StoredRecord]:
    """Of all batches but control batches; the log has verified them."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        end = position + header.size_bytes
        if not header.is_control:
            yield from open_records(data[position:end], DecodingBounds.of_own(header.size_bytes))
        position = end
