"""The log with the delayed messages of one partition: a partition of its topic's companion.

Messages and notes are written into it, and read again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.model.batch import read_header
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.log import Isolation
from goqueue.model.records import NewRecord, StoredRecord, encode_records, open_records
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import (
    Held,
    Note,
    Scheduled,
    note_record,
    parse_address,
    parse_note,
    scheduled_record,
    stored_size_bytes,
)

# Messages that came together may fall due far apart, and to read one its whole batch is decoded.
BATCH_RECORDS: Final = 4
# Bounds what one read holds in memory while a long log is replayed.
REPLAY_BYTES: Final = 1024 * 1024
# Between two wanted messages, about a read's worth: then one read takes both.
GAP_RECORDS: Final = 16
# Less costs as much to read.
BATCH_BYTES_MIN: Final = 1024
# A flush that the disk does not finish within this time has failed for whoever waits.
COMMIT_TIMEOUT_MS: Final = 30_000


class StoredMessage(NamedTuple):
    address: Scheduled
    offset: int
    size_bytes: int


class LocatedHeld(NamedTuple):
    note: Held
    offset: int


class DelayLog:
    """Appends go to the page cache on the event loop, in one write per call."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    @property
    def end_offset(self) -> int:
        return self.partition.log_end_offset

    def append(self, records: Sequence[NewRecord], now_ms: int) -> int:
        """Append records and return the offset of the first."""
        data = bytearray()
        for start in range(0, len(records), BATCH_RECORDS):
            data += encode_records(records[start : start + BATCH_RECORDS], now_ms=now_ms)
        return self.partition.append_own(data).base_offset

    def append_messages(
        self, notes: Sequence[Note], messages: Sequence[tuple[Scheduled, NewRecord]], now_ms: int
    ) -> list[StoredMessage]:
        """Append notes and then messages; a crash leaves some first part of them."""
        records = [note_record(note) for note in notes]
        records += [scheduled_record(address, message) for address, message in messages]
        offset = self.append(records, now_ms) + len(notes)
        return [
            StoredMessage(address, offset + at, _size_bytes(message))
            for at, (address, message) in enumerate(messages)
        ]

    # --- durability -----------------------------------------------------------------------

    async def committed(self, offset: int) -> None:
        """Return once all below `offset` is committed, as safely as the topic's policy says."""
        await self.partition.wait_committed(offset, COMMIT_TIMEOUT_MS)

    # --- reading --------------------------------------------------------------------------

    async def read(self, entries: Iterable[Entry]) -> dict[int, NewRecord]:
        """The messages of these entries by number, without a timestamp.

        `CorruptBatch` if one cannot be read.
        """
        wanted = sorted(entries, key=lambda entry: entry.offset)
        if not wanted:
            return {}
        await self.partition.wait_committed(wanted[-1].offset + 1, COMMIT_TIMEOUT_MS)
        found: dict[int, NewRecord] = {}
        for run in _runs(wanted):
            await self._read_run(run, found)
        return found

    async def _read_run(self, run: Sequence[Entry], found: dict[int, NewRecord]) -> None:
        numbers = {entry.offset: entry.number for entry in run}
        offset = run[0].offset
        largest_bytes = max(entry.size_bytes for entry in run)
        if len(run) == 1:
            guess_bytes = min(max(BATCH_BYTES_MIN, 2 * BATCH_RECORDS * largest_bytes), REPLAY_BYTES)
            data = self.partition.log.read_batch(offset, guess_bytes)
            if data is not None:
                _pick(data, numbers, found)
                return
        last = run[-1].offset
        # What lies between them is read along, as if it were like them.
        wanted_bytes = (last - offset + BATCH_RECORDS) * largest_bytes
        while offset <= last:
            part = await self.partition.read(
                offset,
                min(wanted_bytes, REPLAY_BYTES),
                isolation=Isolation.READ_UNCOMMITTED,
                at_least_one=True,
            )
            _pick(part.data, numbers, found)
            offset = part.next_offset

    async def read_held(self, offset: int, size_bytes: int) -> list[tuple[NewRecord, int]]:
        """The messages that stand there for a transaction, with their due times."""
        await self.partition.wait_committed(offset + 1, COMMIT_TIMEOUT_MS)
        part = await self.partition.read(
            offset,
            size_bytes + BATCH_BYTES_MIN,
            isolation=Isolation.READ_UNCOMMITTED,
            at_least_one=True,
        )
        with making_sense():
            for record in _records(part.data, {offset: 0}):
                if record.offset == offset:
                    note = parse_note(record.value or b"")
                    if isinstance(note, Held):
                        return note.messages()
            raise ValueError(f"no messages of a transaction stand at offset {offset}")


def stored_item(record: StoredRecord) -> StoredMessage | LocatedHeld | Note:
    """What a record of the log tells."""
    address = parse_address(record.headers)
    if address is None:
        note = parse_note(record.value or b"")
        return LocatedHeld(note, record.offset) if isinstance(note, Held) else note
    size = stored_size_bytes(record.key, record.value, record.headers[1:])
    return StoredMessage(address, record.offset, size)


def _size_bytes(message: NewRecord) -> int:
    return stored_size_bytes(message.key, message.value, message.headers)


def _records(data: bytes, wanted: Mapping[int, int] | None = None) -> Iterator[StoredRecord]:
    """All records, or those of batches in which an offset is wanted; the data is verified."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        end = position + header.size_bytes
        offsets = range(header.base_offset, header.next_offset)
        if wanted is None or not wanted.keys().isdisjoint(offsets):
            yield from open_records(data[position:end], DecodingBounds.of_own(end - position))
        position = end


def _pick(data: bytes, numbers: Mapping[int, int], found: dict[int, NewRecord]) -> None:
    for record in _records(data, numbers):
        number = numbers.get(record.offset)
        if number is not None:
            found[number] = NewRecord(
                key=record.key, value=record.value, headers=tuple(record.headers[1:])
            )


def _runs(wanted: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut where so much lies between two entries that two reads are cheaper than one."""
    start = 0
    for at in range(1, len(wanted) + 1):
        if at == len(wanted) or wanted[at].offset - wanted[at - 1].offset > GAP_RECORDS:
            yield wanted[start:at]
            start = at
