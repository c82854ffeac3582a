"""Single messages out of a partition, for queue readers.

A queue reader takes a few messages at a time out of batches that may hold thousands, so decoded
batches are kept for a while. What must not be delivered (control batches, aborted transactions,
offsets that compaction removed) is reported as missing, up to the next message or the end of its
batch: what a gap costs depends on its batches, not on how many offsets it covers. What cannot be
decoded is reported as unreadable.
"""

import sys
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import iterate_batches
from goqueue.model.errors import CorruptBatch
from goqueue.model.log import Isolation
from goqueue.model.offsets import OffsetRange
from goqueue.model.records import Record
from goqueue.model.topics import TopicView

# Decoded batches kept over all partitions, by what they take in memory.
CACHED_BYTES: Final = 32 * 1024 * 1024
# A decoded message beyond its key and value: the objects, and their places in tables.
RECORD_OVERHEAD_BYTES: Final = 600
BATCH_OVERHEAD_BYTES: Final = 600
# One read of the log; a larger batch is read whole all the same.
READ_BYTES: Final = 256 * 1024


class _Batch(NamedTuple):
    start: int
    end: int
    size_bytes: int
    records: dict[int, Record]
    # The offsets of the records, in order.
    offsets: list[int]
    # Why it cannot be decoded.
    problem: str = ""

    def gap_end(self, offset: int) -> int:
        """Where the offsets without a message end that begin with `offset`."""
        at = bisect_right(self.offsets, offset)
        return self.offsets[at] if at < len(self.offsets) else self.end


class Unreadable(NamedTuple):
    """A batch that cannot be decoded; `first` is the first of its offsets that was asked for."""

    first: int
    offsets: OffsetRange
    problem: str

    @property
    def rest(self) -> tuple[OffsetRange, ...]:
        """All other offsets of the batch: one dead letter stands for all."""
        around = (
            OffsetRange(self.offsets.start, self.first),
            OffsetRange(self.first + 1, self.offsets.end),
        )
        return tuple(part for part in around if part.start < part.end)


class Messages(NamedTuple):
    """`records` in the order asked; `missing` are offsets without a message for readers.

    `missing` may go on beyond what was asked for. `unread` is left of what was asked for.
    """

    records: list[Record]
    missing: list[OffsetRange]
    unreadable: list[Unreadable]
    unread: list[OffsetRange]

    @property
    def skipped(self) -> tuple[OffsetRange, ...]:
        """Offsets to settle silently."""
        return (*self.missing, *(part for each in self.unreadable for part in each.rest))

    @property
    def dying(self) -> tuple[OffsetRange, ...]:
        """Offsets that go to the dead letters unread."""
        return tuple(OffsetRange(each.first, each.first + 1) for each in self.unreadable)


class ReadLimit(NamedTuple):
    """How much to look at; the bytes are those of keys and values."""

    records: int
    size_bytes: int
    # Aborted ones are looked through without being decoded.
    batches: int


NO_LIMIT: Final = ReadLimit(sys.maxsize, sys.maxsize, sys.maxsize)


class QueueReader:
    def __init__(self) -> None:
        # The least recently used first.
        self._batches: OrderedDict[tuple[str, int, int], _Batch] = OrderedDict()
        # Starts of the kept batches of each partition, in order.
        self._starts: dict[tuple[str, int], list[int]] = {}
        self._cached_bytes = 0

    async def read(
        self, partition: Partition, ranges: Sequence[OffsetRange], *, up_to: ReadLimit = NO_LIMIT
    ) -> Messages:
        found = Messages([], [], [], [])
        unreadable: dict[int, Unreadable] = {}
        size_bytes = batches = 0
        for position, offsets in enumerate(ranges):
            offset = offsets.start
            while offset < offsets.end:
                left = up_to.records - len(found.records)
                if left <= 0 or size_bytes >= up_to.size_bytes or batches >= up_to.batches:
                    rest = [OffsetRange(offset, offsets.end), *ranges[position + 1 :]]
                    said = list(unreadable.values())
                    return found._replace(unreadable=said, unread=rest)
                batch = self._find(partition, offset) or await self._load(partition, offset)
                if batch is None:
                    _add(found.missing, offset, offsets.end)
                    break
                batches += 1
                if batch.problem:
                    whole = OffsetRange(batch.start, batch.end)
                    unreadable.setdefault(batch.start, Unreadable(offset, whole, batch.problem))
                    offset = batch.end
                    continue
                end = min(batch.end, offsets.end, offset + left)
                offset, taken_bytes = _take(batch, offset, end, found)
                size_bytes += taken_bytes
        return found._replace(unreadable=list(unreadable.values()))

    def _find(self, partition: Partition, offset: int) -> _Batch | None:
        topic, index = partition.name
        starts = self._starts.get((topic, index))
        if not starts:
            return None
        at = bisect_right(starts, offset) - 1
        if at < 0:
            return None
        key = (str(topic), int(index), starts[at])
        batch = self._batches[key]
        if offset >= batch.end:
            return None
        self._batches.move_to_end(key)
        return batch

    async def _load(self, partition: Partition, offset: int) -> _Batch | None:
        """Read and decode from the batch with `offset` on; returns that batch."""
        found = await partition.read(
            offset, READ_BYTES, isolation=Isolation.READ_COMMITTED, at_least_one=True
        )
        if not found.data:
            return None
        aborted = AbortedBatches(partition.aborted_between(offset, found.next_offset))
        view = memoryview(found.data)
        decoder = partition.decoder
        first: _Batch | None = None
        start = offset
        for position, header in iterate_batches(found.data):
            records: dict[int, Record] = {}
            offsets: list[int] = []
            size_bytes = BATCH_OVERHEAD_BYTES
            problem = ""
            if not header.is_control and not aborted.has(header):
                packed = view[position : position + header.size_bytes]
                try:
                    records, offsets, size_bytes = await decoder.decode(
                        packed, partition.config.decoding_bounds, _table
                    )
                except CorruptBatch as error:
                    decoder.complain(partition.name, header, error)
                    problem = error.message
            # A gap before the batch, left by compaction, counts to it.
            batch = _Batch(
                min(start, header.base_offset),
                header.next_offset,
                size_bytes,
                records,
                offsets,
                problem,
            )
            self._keep(partition, batch)
            first = first or batch
            start = header.next_offset
        return first

    def _keep(self, partition: Partition, batch: _Batch) -> None:
        topic, index = partition.name
        key = (str(topic), int(index), batch.start)
        if key in self._batches:
            self._drop(key)
        self._batches[key] = batch
        insort(self._starts.setdefault(key[:2], []), batch.start)
        self._cached_bytes += batch.size_bytes
        while self._cached_bytes > CACHED_BYTES and len(self._batches) > 1:
            self._drop(next(iter(self._batches)))

    def _drop(self, key: tuple[str, int, int]) -> None:
        self._cached_bytes -= self._batches.pop(key).size_bytes
        starts = self._starts[key[:2]]
        del starts[bisect_left(starts, key[2])]
        if not starts:
            del self._starts[key[:2]]

    def forget(self, topic: TopicView) -> None:
        """The topic was deleted, and may come again with other messages."""
        for view in topic.partitions:
            for start in tuple(self._starts.get((topic.name, view.index), ())):
                self._drop((topic.name, view.index, start))


def _take(batch: _Batch, offset: int, end: int, found: Messages) -> tuple[int, int]:
    """Add what the batch has of [offset, end); returns where to go on, and the bytes taken."""
    size_bytes = 0
    while offset < end:
        record = batch.records.get(offset)
        if record is not None:
            found.records.append(record)
            size_bytes += len(record.key or b"") + len(record.value or b"")
            offset += 1
        else:
            gap_end = batch.gap_end(offset)
            _add(found.missing, offset, gap_end)
            offset = gap_end
    return offset, size_bytes


def _add(ranges: list[OffsetRange], start: int, end: int) -> None:
    if ranges and ranges[-1].start <= start <= ranges[-1].end:
        ranges[-1] = OffsetRange(ranges[-1].start, max(end, ranges[-1].end))
    else:
        ranges.append(OffsetRange(start, end))


def _table(records: Sequence[Record]) -> tuple[dict[int, Record], list[int], int]:
    """By offset, the offsets in order, and what that takes in memory."""
    content = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    size_bytes = BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES * len(records) + content
    table = {record.offset: record for record in records}
    return table, list(table), size_bytes
