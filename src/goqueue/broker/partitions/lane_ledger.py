"""A partition's memory of its messages' priorities: those that are not normal, by offset.

The index is pure (`state/priority`); here it meets the log. A start reads the newest snapshot and
searches the log after it for the header.
"""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.broker.partitions.feature_headers import features_of, may_have_features
from goqueue.broker.partitions.intake import Admitted, LaneAt, PlacedBatch
from goqueue.model.batch import BatchHeader, iterate_batches
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import CorruptBatch, GoQueueError, InvalidRecord
from goqueue.model.queues.lanes import Lane
from goqueue.model.records import Record, decode_records
from goqueue.model.topic_config import TopicConfig
from goqueue.state.priority.index import INDEX_CHUNK_OFFSETS, LaneIndex
from goqueue.storage.log import PartitionLog
from goqueue.storage.snapshot_files import LANES

logger = logging.getLogger(__name__)

# Bounds what one read holds in memory while the log is searched.
READ_BYTES: Final = 4 * 1024 * 1024

_CHECKSUM: Final = struct.Struct(">I")
_Chunks = list[tuple[int, bytes]]


class LaneLedger:
    """`index` is None as long as every message is normal: most topics pay nothing."""

    def __init__(self, log: PartitionLog) -> None:
        self.index: LaneIndex | None = None
        self._log = log
        self._snapshot_offset = -1

    @classmethod
    def recover(cls, log: PartitionLog) -> "LaneLedger":
        """Blocking: bring the index to the end of the log."""
        ledger = cls(log)
        ledger.rebuild()
        return ledger

    def rebuild(self) -> None:
        """Blocking: make the index anew from the newest snapshot and the log after it."""
        log = self._log
        self.index = None
        self._snapshot_offset = -1
        start = log.log_start_offset
        for offset, content in log.snapshots.read(LANES, log_end=log.log_end_offset):
            try:
                chunks = _decode(content)
            except ValueError as error:
                logger.warning("%s: lane snapshot %d is passed over: %s", log.name, offset, error)
                continue
            if chunks:
                self.index = LaneIndex.restore(chunks, start=start)
            self._snapshot_offset = start = max(offset, start)
            break
        self._search(start)

    def cut(self) -> None:
        """The log was cut, or begun anew."""
        start, end = self._log.log_start_offset, self._log.log_end_offset
        self._snapshot_offset = -1
        if self.index is not None:
            self.index.truncate(end)
            if start == end:
                self.index = None

    def record(self, base_offset: int, lanes: Sequence[LaneAt], next_offset: int) -> None:
        """Take in what was appended; `lanes` has the place of each message that is not normal."""
        if lanes and self.index is None:
            self.index = LaneIndex(self._log.log_start_offset)
        if self.index is None:
            return
        for delta, lane in lanes:
            offset = base_offset + delta
            self.index.append(lane, offset, offset + 1)
        self.index.advance(next_offset)

    def snapshot(self, *, durable: bool = True) -> Callable[[], None] | None:
        """What to run in a thread to write the index as it is now; None if nothing is new."""
        offset = self._log.log_end_offset
        if offset == self._snapshot_offset:
            return None
        self._snapshot_offset = offset
        chunks: _Chunks = []
        if self.index is not None:
            first = self._log.log_start_offset // INDEX_CHUNK_OFFSETS
            for number in range(first, offset // INDEX_CHUNK_OFFSETS + 1):
                chunk = self.index.chunk(number)
                if chunk is not None:
                    chunks.append((number, chunk))

        snapshots = self._log.snapshots
        cuts = snapshots.cuts

        def write() -> None:
            snapshots.write(LANES, offset, _encode(chunks), cuts=cuts, durable=durable)

        return write

    def upkeep(self) -> None:
        if self.index is not None:
            self.index.trim(self._log.log_start_offset)

    def close(self) -> None:
        """Blocking: leave a snapshot of the end, so that the next start searches nothing.

        Without waiting for the disk, as with producers.
        """
        write = self.snapshot(durable=False)
        if write is not None:
            write()

    def _search(self, offset: int) -> None:
        log, end = self._log, self._log.log_end_offset
        while offset < end:
            try:
                found = log.read(offset, READ_BYTES, up_to=end, at_least_one=True, may_block=True)
            except GoQueueError as error:
                logger.warning("%s: no priorities from offset %d on: %s", log.name, offset, error)
                return
            if not found.data:
                return
            view = memoryview(found.data)
            for position, header in iterate_batches(found.data):
                self.record_stored(view[position : position + header.size_bytes], header)
            offset = found.next_offset

    def record_stored(self, batch: memoryview, header: BatchHeader) -> None:
        """Take in a batch that stands in the log, of which nothing is known but its bytes."""
        lanes: list[LaneAt] = []
        if not header.is_control and may_have_features(batch, header, self._log.config):
            lanes = self._stored_lanes(batch, header)
        self.record(header.base_offset, lanes, header.next_offset)

    def _stored_lanes(self, batch: memoryview, header: BatchHeader) -> list[LaneAt]:
        try:
            records = decode_records(batch, self._log.config.decoding_bounds)
        except CorruptBatch as error:
            logger.warning(
                "%s: no priorities of offsets %d to %d: %s",
                self._log.name,
                header.base_offset,
                header.last_offset,
                error,
            )
            return []
        return _lanes_of(records, header)


def has_features(data: bytearray, batches: Sequence[PlacedBatch], config: TopicConfig) -> bool:
    """Whether some of the batches must be decoded for what their headers ask."""
    if len(batches) == 1:
        return may_have_features(data, batches[0][1], config)
    view = memoryview(data)
    return any(
        may_have_features(view[at : at + header.size_bytes], header, config)
        for at, header in batches
    )


def with_lanes(admitted: Admitted, config: TopicConfig, bounds: DecodingBounds) -> Admitted:
    """Batches with features, and which of their messages are not of normal priority.

    Raises `InvalidRecord` for a GoQueue header that makes no sense, and so refuses the batch.
    """
    if not admitted.has_features:
        return admitted
    data, batches, now_ms = admitted[:3]
    return admitted._replace(lanes=_requested_lanes(data, batches, config, now_ms, bounds))


def _requested_lanes(
    data: bytearray,
    batches: Sequence[PlacedBatch],
    config: TopicConfig,
    now_ms: int,
    bounds: DecodingBounds,
) -> list[LaneAt]:
    """The lanes that produced batches ask for, by offset from the first message on."""
    found: list[LaneAt] = []
    before = 0
    for position, header in batches:
        batch = memoryview(data)[position : position + header.size_bytes]
        if may_have_features(batch, header, config):
            for record in decode_records(batch, bounds):
                delta = record.offset - header.base_offset
                lane = features_of(record.headers, now_ms=now_ms, record_index=delta).lane
                if lane is not Lane.NORMAL:
                    found.append((before + delta, lane))
        before += header.last_offset_delta + 1
    return found


def _lanes_of(records: Sequence[Record], header: BatchHeader) -> list[LaneAt]:
    """As above for a stored batch, which may come from elsewhere: what makes no sense is normal."""
    found: list[LaneAt] = []
    for record in records:
        try:
            lane = features_of(record.headers, now_ms=0).lane
        except InvalidRecord:
            continue
        if lane is not Lane.NORMAL:
            found.append((record.offset - header.base_offset, lane))
    return found


def _encode(chunks: _Chunks) -> bytes:
    body = msgspec.msgpack.encode(chunks)
    return _CHECKSUM.pack(crc32c(body)) + body


def _decode(content: bytes) -> _Chunks:
    if len(content) < _CHECKSUM.size:
        raise ValueError("it is cut short")
    body = memoryview(content)[_CHECKSUM.size :]
    if crc32c(body) != _CHECKSUM.unpack_from(content)[0]:
        raise ValueError("its checksum is wrong")
    return msgspec.msgpack.decode(body, type=_Chunks)
