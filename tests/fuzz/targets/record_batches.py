"""A record batch as a producer sends it or a log has it, through all that decodes and edits one.

The first byte of an input says what is done to the rest before: a fuzzer would never find a
checksum by trying, nor the bytes of a codec.

    bits 0-2   1 to 4: what follows the header is packed with that codec; else it stays as it is
    bit 3      length, format version and checksum are set right
    bit 4      then the number of records stays, too; else it becomes the last offset delta plus one
"""

import gzip
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode
from crc32c import crc32c

from goqueue.broker.partitions.feature_headers import features_of, may_have_features
from goqueue.broker.partitions.intake import check_rules, place
from goqueue.doors.kafka.produced_batch import check_one_batch
from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    COMPRESSION_MASK,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    check_batch,
    check_produced,
    iterate_batches,
)
from goqueue.model.batch_editing import recompress, with_records, without_records
from goqueue.model.control import decode_marker
from goqueue.model.decoding_bounds import DEFAULT_BOUNDS, ON_LOOP_BOUNDS
from goqueue.model.errors import CorruptBatch, InvalidRequest
from goqueue.model.records import Record, decode_records, find_first_since
from goqueue.model.topic_config import TopicConfig, topic_config
from tests.fuzz.target import Finding, Target, Verdict

CODECS: Final[dict[int, Callable[[bytes], bytes]]] = {
    # Without the time of day.
    1: partial(gzip.compress, mtime=0),
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
SET_RIGHT: Final = 0x08
KEEP_COUNT: Final = 0x10
_NEWEST_PRODUCE: Final = 13
_NOW_MS: Final = 1_700_000_000_000
_ATTRIBUTES_LOW: Final = CHECKSUMMED_FROM + 1
_DELTA_POSITION: Final = 23
_COUNT_POSITION: Final = 57
_CONFIGS: Final = [
    topic_config(texts, {})
    for texts in (
        {},
        {"cleanup.policy": "compact"},
        {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"},
        {"compression.type": "uncompressed", "queue.headers.in.compressed": "true"},
    )
]


def made(data: bytes) -> bytes:
    """The batch that an input stands for."""
    mode, batch = data[0] if data else 0, bytearray(data[1:])
    if len(batch) < HEADER_BYTES:
        return bytes(batch)
    codec = CODECS.get(mode & COMPRESSION_MASK)
    if codec is not None:
        batch[HEADER_BYTES:] = codec(bytes(batch[HEADER_BYTES:]))
        batch[_ATTRIBUTES_LOW] = (
            batch[_ATTRIBUTES_LOW] & ~COMPRESSION_MASK | mode & COMPRESSION_MASK
        )
    if mode & SET_RIGHT:
        if not mode & KEEP_COUNT:
            (delta,) = struct.unpack_from(">i", batch, _DELTA_POSITION)
            struct.pack_into(">i", batch, _COUNT_POSITION, min(delta + 1, 2**31 - 1))
        batch[MAGIC_POSITION] = MAGIC_V2
        struct.pack_into(">i", batch, 8, len(batch) - LENGTH_PREFIX_BYTES)
        checksum = crc32c(memoryview(batch)[CHECKSUMMED_FROM:])
        struct.pack_into(">I", batch, CRC_POSITION, checksum)
    return bytes(batch)


def run(data: bytes) -> Verdict:
    batch = made(data)
    verdicts = [
        _tried(lambda: bytes(check_one_batch(memoryview(batch), _NEWEST_PRODUCE))),
        _tried(lambda: check_produced(batch)),
        _tried(lambda: list(iterate_batches(batch))),
        *(_tried(partial(_admitted, batch, config)) for config in _CONFIGS),
    ]
    try:
        header = check_batch(batch)
    except CorruptBatch as error:
        return *verdicts, str(error)
    return *verdicts, *_stored(batch[: header.size_bytes], header)


def _tried(work: Callable[[], Verdict]) -> Verdict:
    """What comes of it, or the error that its caller expects."""
    try:
        return work()
    except (InvalidRequest, CorruptBatch) as error:
        return type(error).__name__, str(error)


def _admitted(batch: bytes, config: TopicConfig) -> Verdict:
    data, batches = check_rules(batch, config, _NOW_MS, DEFAULT_BOUNDS)
    placed = place(data, batches, base_offset=1_000, leader_epoch=3)
    for position, header in placed:
        if check_batch(data, position) != header:
            raise Finding(f"admitted as {header}, stored as {check_batch(data, position)}")
        if may_have_features(data, header, config):
            whole = memoryview(data)[position : position + header.size_bytes]
            for index, record in enumerate(decode_records(whole)):
                features_of(record.headers, now_ms=_NOW_MS, record_index=index)
    return [header._replace(crc=0, length=0) for _, header in placed]


def _stored(batch: bytes, header: BatchHeader) -> tuple[Verdict, ...]:
    """A batch that is whole, as readers of a log meet it."""
    verdicts = [
        _tried(lambda: decode_records(batch, ON_LOOP_BOUNDS)),
        _tried(lambda: find_first_since(batch, _NOW_MS, header.base_offset)),
        _tried(lambda: decode_marker(batch)),
        _tried(lambda: without_records(header)),
    ]
    try:
        records = decode_records(batch, DEFAULT_BOUNDS)
    except CorruptBatch as error:
        return *verdicts, str(error)
    if len(records) == header.record_count:
        verdicts.append(_tried(lambda: _thinned(batch, header, records)))
    if header.record_count == header.last_offset_delta + 1:
        verdicts += [_recompressed(batch, header, records, codec) for codec in range(5)]
    return *verdicts, records


def _thinned(batch: bytes, header: BatchHeader, records: list[Record]) -> Verdict:
    """Without every other record, as compaction leaves it."""
    kept = [not index % 2 for index in range(len(records))]
    thinned = with_records(batch, header, kept, _NOW_MS)
    check_batch(thinned)
    left = decode_records(thinned)
    expected = [record for record, is_kept in zip(records, kept, strict=True) if is_kept]
    if _contents(left) != _contents(expected):
        raise Finding(f"{expected} were to be kept, {left} were")
    return left


def _recompressed(batch: bytes, header: BatchHeader, records: list[Record], codec: int) -> Verdict:
    again = bytes(recompress(batch, header, codec))
    check_batch(again)
    left = decode_records(again)
    if [content[1:] for content in _contents(left)] != [c[1:] for c in _contents(records)]:
        raise Finding(f"{records} became {left} under codec {codec}")
    return len(left)


def _contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(r.offset, r.key, r.value, r.headers) for r in records]


TARGET: Final = Target(
    name="record_batches",
    promise="a batch is decoded within its bounds or refused; edited, it keeps its records",
    run=run,
    # Thirty ways through the batch, some of which may unpack it to its bound.
    cpu_ms_max=1_000,
    memory_mb_max=256,
)
