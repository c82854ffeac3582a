"""Single messages out of a partition, for queue readers.

A queue reader takes a few messages at a time out of batches that may hold thousands, so decoded
batches are kept for a while. What must not be delivered (control batches, aborted transactions,
offsets that compaction removed) is reported as missing.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from goqueue.broker.messages import Isolation
from goqueue.broker.partition import Partition
from goqueue.model.batch import BatchHeader, iterate_batches
from goqueue.model.records import Record, decode_records
from goqueue.state.priority import Span
from goqueue.storage.aborted import AbortedEntry

# Decoded batches kept over all partitions. A decoded message costs a few hundred bytes beyond its
# content, so this is some tens of megabytes at most.
CACHED_BYTES: Final = 16 * 1024 * 1024
# One read of the log; a larger batch is read whole all the same.
READ_BYTES: Final = 256 * 1024


class _Batch(NamedTuple):
    start: int
    end: int
    size_bytes: int
    records: dict[int, Record]


class Messages(NamedTuple):
    """`records` in the order asked; `missing` are offsets without a message for readers."""

    records: list[Record]
    missing: list[Span]


class QueueReader:
    def __init__(self) -> None:
        self._batches: OrderedDict[tuple[str, int, int], _Batch] = OrderedDict()
        self._cached_bytes = 0

    async def read(self, partition: Partition, spans: Sequence[Span]) -> Messages:
        records: list[Record] = []
        missing: list[Span] = []
        for span in spans:
            offset = span.start
            while offset < span.end:
                batch = self._find(partition, offset) or await self._load(partition, offset)
                end = span.end if batch is None else min(batch.end, span.end)
                for wanted in range(offset, end):
                    record = None if batch is None else batch.records.get(wanted)
                    if record is not None:
                        records.append(record)
                    elif missing and missing[-1].end == wanted:
                        missing[-1] = Span(missing[-1].start, wanted + 1)
                    else:
                        missing.append(Span(wanted, wanted + 1))
                offset = end
        return Messages(records, missing)

    def _find(self, partition: Partition, offset: int) -> _Batch | None:
        topic, index = partition.name
        for key, batch in reversed(self._batches.items()):
            if key[0] == topic and key[1] == index and batch.start <= offset < batch.end:
                self._batches.move_to_end(key)
                return batch
        return None

    async def _load(self, partition: Partition, offset: int) -> _Batch | None:
        """Read and decode from the batch with `offset` on; returns that batch."""
        found = await partition.read(
            offset, READ_BYTES, isolation=Isolation.READ_COMMITTED, at_least_one=True
        )
        if not found.data:
            return None
        aborted = partition.ledger.aborted.overlapping(offset, found.next_offset)
        view = memoryview(found.data)
        first: _Batch | None = None
        start = offset
        for position, header in iterate_batches(found.data):
            records: dict[int, Record] = {}
            if not header.is_control and not _is_aborted(header, aborted):
                decoded = decode_records(view[position : position + header.size_bytes])
                records = {record.offset: record for record in decoded}
            # A gap before the batch, left by compaction, counts to it.
            batch = _Batch(
                min(start, header.base_offset), header.next_offset, header.size_bytes, records
            )
            self._keep(partition, batch)
            first = first or batch
            start = header.next_offset
        return first

    def _keep(self, partition: Partition, batch: _Batch) -> None:
        topic, index = partition.name
        key = (str(topic), int(index), batch.start)
        replaced = self._batches.pop(key, None)
        if replaced is not None:
            self._cached_bytes -= replaced.size_bytes
        self._batches[key] = batch
        self._cached_bytes += batch.size_bytes
        while self._cached_bytes > CACHED_BYTES and len(self._batches) > 1:
            _, oldest = self._batches.popitem(last=False)
            self._cached_bytes -= oldest.size_bytes

    def forget(self, topic: str) -> None:
        """The topic was deleted, and may come again with other messages."""
        for key in [key for key in self._batches if key[0] == topic]:
            self._cached_bytes -= self._batches.pop(key).size_bytes


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedEntry]) -> bool:
    return header.is_transactional and any(
        entry.producer_id == header.producer_id
        and entry.first_offset <= header.base_offset <= entry.last_offset
        for entry in aborted
    )
