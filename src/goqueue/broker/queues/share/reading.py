"""Stored batches that hold given records, for share groups: opaque bytes, no record is decoded.

What must not be delivered is found by batch headers: control batches and aborted transactions.
Only where messages may have a time to live are batches decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from goqueue.broker.partitions.feature_headers import may_have_features
from goqueue.broker.partitions.partition import Partition
from goqueue.model.aborted import NOTHING_ABORTED, AbortedBatches
from goqueue.model.batch import BatchHeader, read_header
from goqueue.model.errors import CorruptBatch
from goqueue.model.log import Isolation
from goqueue.model.offsets import OffsetRange
from goqueue.model.records import Record

# Read beyond the estimate, so that most reads are enough: a batch is seldom larger than this.
READ_AHEAD_BYTES: Final = 16 * 1024

FindExpired = Callable[[Partition, Sequence[Record]], list[OffsetRange]]


@dataclass(slots=True)
class FoundBatches:
    """What a share fetch would get of a partition."""

    # Ready records whose batches were read, in the order of offsets.
    ranges: list[OffsetRange] = field(default_factory=list)
    # Among what was asked for: no record for consumers, or past its time to live.
    skipped: list[OffsetRange] = field(default_factory=list)
    expired: list[OffsetRange] = field(default_factory=list)
    batches: list[OffsetRange] = field(default_factory=list)
    chunks: list[bytes | memoryview] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def data(self) -> bytes | memoryview:
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)

    def data_of(self, ranges: Sequence[OffsetRange]) -> bytes | memoryview:
        """Only the batches that hold some of these, which are in the order of offsets."""
        if sum(s.size for s in ranges) == sum(s.size for s in self.ranges):
            return self.data
        kept = []
        for chunk in self.chunks:
            position = 0
            while position < len(chunk):
                header = read_header(chunk, position)
                end = position + header.size_bytes
                if any(s.start < header.next_offset and header.base_offset < s.end for s in ranges):
                    kept.append(memoryview(chunk)[position:end])
                position = end
        return b"".join(kept)


class ShareReader:
    """Reads once from one partition."""

    def __init__(
        self,
        partition: Partition,
        *,
        isolation: Isolation,
        find_expired: FindExpired,
        completes_batches: bool,
    ) -> None:
        self._partition = partition
        self._isolation = isolation
        self._find_expired = find_expired
        # Take the last batch whole, rather than send it again for the rest of its records.
        self._completes_batches = completes_batches
        self._found = FoundBatches()
        # The batch that was read last, which the next range may be in too.
        self._header: BatchHeader | None = None
        self._is_shown = False

    async def read(
        self, ranges: Sequence[OffsetRange], max_bytes: int, *, at_least_one: bool
    ) -> FoundBatches:
        found, partition = self._found, self._partition
        log = partition.log
        average_bytes = log.size_bytes // max(log.log_end_offset - log.log_start_offset, 1) + 1
        for offsets in ranges:
            offset = offsets.start
            if self._header is not None and offset < self._header.next_offset:
                self._note(offsets, self._header)
                offset = self._header.next_offset
            while offset < offsets.end:
                left_bytes = max_bytes - found.size_bytes
                wanted_bytes = (offsets.end - offset) * average_bytes + READ_AHEAD_BYTES
                read = await partition.read(
                    offset,
                    min(left_bytes, wanted_bytes),
                    isolation=self._isolation,
                    at_least_one=at_least_one and not found.chunks,
                )
                if not read.data:
                    return found
                offset = await self._take(offsets, read.data, read.next_offset)
        return found

    async def _take(self, offsets: OffsetRange, data: bytes, next_offset: int) -> int:
        """Keep the batches of `data` that hold some of `offsets`; returns where to read on."""
        aborted = NOTHING_ABORTED
        if self._isolation is Isolation.READ_COMMITTED:
            aborted = AbortedBatches(self._partition.aborted_between(offsets.start, next_offset))
        found = self._found
        view = memoryview(data)
        position = kept_from = 0
        end = offsets.start
        while position < len(data):
            header = read_header(data, position)
            if header.base_offset >= offsets.end:
                break
            batch_end = position + header.size_bytes
            self._header = header
            self._is_shown = not header.is_control and not aborted.has(header)
            if not self._is_shown:
                self._keep(view, kept_from, position)
                kept_from = batch_end
            else:
                found.batches.append(OffsetRange(header.base_offset, header.next_offset))
                await self._look_for_expired(header, view[position:batch_end])
            self._note(offsets, header)
            position, end = batch_end, header.next_offset
        if position == len(data) and kept_from == 0:
            found.chunks.append(data)
            found.size_bytes += position
        else:
            self._keep(view, kept_from, position)
        return end

    def _keep(self, view: memoryview, start: int, end: int) -> None:
        if start < end:
            self._found.chunks.append(view[start:end])
            self._found.size_bytes += end - start

    def _note(self, offsets: OffsetRange, header: BatchHeader) -> None:
        """Sort the part of `offsets` that is in the batch."""
        start, end = max(offsets.start, header.base_offset), min(offsets.end, header.next_offset)
        if not self._is_shown:
            _add(self._found.skipped, start, end)
            return
        if self._completes_batches and end == offsets.end:
            end = header.next_offset
        _add(self._found.ranges, start, end)

    async def _look_for_expired(self, header: BatchHeader, batch: memoryview) -> None:
        partition = self._partition
        config = partition.config
        if config.queue_ttl_ms < 0 and not may_have_features(batch, header, config):
            return
        try:
            self._found.expired += await partition.decoder.decode(
                batch,
                config.decoding_bounds,
                lambda records: self._find_expired(partition, records),
            )
        except CorruptBatch as error:
            # Sent as it is, as where nobody looks into it: who gets it unpacks it.
            partition.decoder.complain(partition.name, header, error)


def _add(ranges: list[OffsetRange], start: int, end: int) -> None:
    if ranges and ranges[-1].end >= start:
        ranges[-1] = OffsetRange(ranges[-1].start, max(end, ranges[-1].end))
    else:
        ranges.append(OffsetRange(start, end))
