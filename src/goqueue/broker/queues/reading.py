"""Single messages out of a partition, for queue readers.

A queue reader takes a few messages at a time out of batches that may hold thousands, so decoded
batches are kept for a while. What must not be delivered (control batches, aborted transactions,
offsets that compaction removed) is reported as missing, and what cannot be decoded as unreadable.
"""

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
    # Why it cannot be decoded.
    problem: str = ""


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
    """`records` in the order asked; `missing` are offsets without a message for readers."""

    records: list[Record]
    missing: list[OffsetRange]
    unreadable: list[Unreadable]

    @property
    def skipped(self) -> tuple[OffsetRange, ...]:
        """Offsets to settle silently."""
        return (*self.missing, *(part for each in self.unreadable for part in each.rest))

    @property
    def dying(self) -> tuple[OffsetRange, ...]:
        """Offsets that go to the dead letters unread."""
        return tuple(OffsetRange(each.first, each.first + 1) for each in self.unreadable)


class QueueReader:
    def __init__(self) -> None:
        # The least recently used first.
        self._batches: OrderedDict[tuple[str, int, int], _Batch] = OrderedDict()
        # Starts of the kept batches of each partition, in order.
        self._starts: dict[tuple[str, int], list[int]] = {}
        self._cached_bytes = 0

    async def read(self, partition: Partition, ranges: Sequence[OffsetRange]) -> Messages:
        records: list[Record] = []
        missing: list[OffsetRange] = []
        unreadable: dict[int, Unreadable] = {}
        for offsets in ranges:
            offset = offsets.start
            while offset < offsets.end:
                batch = self._find(partition, offset) or await self._load(partition, offset)
                end = offsets.end if batch is None else min(batch.end, offsets.end)
                if batch is not None and batch.problem:
                    found = Unreadable(offset, OffsetRange(batch.start, batch.end), batch.problem)
                    unreadable.setdefault(batch.start, found)
                    offset = end
                    continue
                for wanted in range(offset, end):
                    record = None if batch is None else batch.records.get(wanted)
                    if record is not None:
                        records.append(record)
                    elif missing and missing[-1].end == wanted:
                        missing[-1] = OffsetRange(missing[-1].start, wanted + 1)
                    else:
                        missing.append(OffsetRange(wanted, wanted + 1))
                offset = end
        return Messages(records, missing, list(unreadable.values()))

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
            problem = ""
            if not header.is_control and not aborted.has(header):
                packed = view[position : position + header.size_bytes]
                try:
                    decoded = await decoder.decode(packed, partition.config.decoding_bounds)
                    records = {record.offset: record for record in decoded}
                except CorruptBatch as error:
                    decoder.complain(partition.name, header, error)
                    problem = error.message
            # A gap before the batch, left by compaction, counts to it.
            first_offset = min(start, header.base_offset)
            size_bytes = _memory_bytes(records)
            batch = _Batch(first_offset, header.next_offset, size_bytes, records, problem)
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

    def forget(self, topic: str) -> None:
        """The topic was deleted, and may come again with other messages."""
        for key in [key for key in self._batches if key[0] == topic]:
            self._drop(key)


def _memory_bytes(records: dict[int, Record]) -> int:
    content = sum(len(record.key or b"") + len(record.value or b"") for record in records.values())
    return BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES * len(records) + content
