"""What a produced batch must be before a partition takes it."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.batch import (
    COMPRESSION_MASK,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    BatchHeader,
    Buffer,
    assign,
    check_batch,
    check_produced,
    with_place,
)
from goqueue.model.batch_editing import recompress, stamp_append_time
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import (
    InvalidRecord,
    InvalidTimestamp,
    RecordTooLarge,
    UnpackedTooLarge,
)
from goqueue.model.queues.lanes import Lane
from goqueue.model.records import COMPRESSION_CODES, decode_records
from goqueue.model.settings import INT64_MAX
from goqueue.model.topic_config import TopicConfig

PlacedBatch = tuple[int, BatchHeader]
# A message that is not of normal priority, counted from the first of its batches.
LaneAt = tuple[int, Lane]


class Admitted(NamedTuple):
    """Batches that a partition takes as they are, on their way to its log.

    `has_features`: some must be decoded for what their record headers ask. Times in microseconds
    are for the trace; 0 without one. `lanes`: what the headers ask for, once they were looked at.
    """

    data: bytearray
    batches: list[PlacedBatch]
    now_ms: int
    has_features: bool
    started_us: int = 0
    admitted_us: int = 0
    lanes: Sequence[LaneAt] = ()


def check_rules(
    records: Buffer, config: TopicConfig, now_ms: int, bounds: DecodingBounds
) -> tuple[bytearray, list[PlacedBatch]]:
    """Check every batch in `records` against the topic's rules.

    Returns a copy that may be patched, with the position and header of each batch in it. Raises an
    `InvalidRequest` or `CorruptBatch` before anything is changed; of these, `UnpackedTooLarge` if a
    batch must be decoded for it and goes beyond the bounds.
    """
    if not records:
        raise InvalidRecord("no record batch was sent")
    data = bytearray(records)
    batches: list[PlacedBatch] = []
    position = 0
    while position < len(data):
        header = check_produced(data, position)
        size_bytes = _check_size(header, config)
        if header.attributes & COMPRESSION_MASK:
            _check_unpacked(header, config)
        _check_timestamps(header, config, now_ms)
        if config.is_compacted:
            _check_keys(data, position, header, bounds)
        batches.append((position, header))
        position += size_bytes
    if len(batches) > 1 and any(header.has_producer for _, header in batches):
        raise InvalidRecord("an idempotent producer sends one batch per partition and request")
    return _conform(data, batches, config, now_ms, bounds)


def place(
    data: bytearray, batches: list[PlacedBatch], *, base_offset: int, leader_epoch: int
) -> list[PlacedBatch]:
    """Give each batch its offset and epoch; return the headers as they now stand."""
    placed: list[PlacedBatch] = []
    offset = base_offset
    for position, header in batches:
        assign(data, position, offset, leader_epoch)
        placed.append((position, with_place(header, offset, leader_epoch)))
        offset += header.last_offset_delta + 1
    return placed


def _check_size(header: BatchHeader, config: TopicConfig) -> int:
    size_bytes = header.length + LENGTH_PREFIX_BYTES
    if size_bytes > config.max_message_bytes:
        raise RecordTooLarge(
            f"batch has {size_bytes} bytes; max.message.bytes is {config.max_message_bytes}"
        )
    return size_bytes


def _check_unpacked(header: BatchHeader, config: TopicConfig) -> None:
    """Its records alone, as many as it says, must not be more than anybody may unpack."""
    unpacked_bytes = header.record_count * RECORD_BYTES_MIN
    max_bytes = max(config.max_decompressed_message_bytes, config.max_message_bytes)
    if unpacked_bytes > max_bytes:
        raise UnpackedTooLarge(
            f"batch says {header.record_count} records, which are {unpacked_bytes} bytes unpacked; "
            f"max.decompressed.message.bytes is {max_bytes}"
        )


def _check_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime" or header.max_timestamp_ms == NO_TIMESTAMP:
        return
    if header.max_timestamp_ms - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {header.max_timestamp_ms} lies {header.max_timestamp_ms - now_ms} ms in "
            f"the future; message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
        )
    before_max_ms = config.message_timestamp_before_max_ms
    if before_max_ms != INT64_MAX and now_ms - header.base_timestamp_ms > before_max_ms:
        raise InvalidTimestamp(
            f"timestamp {header.base_timestamp_ms} lies {now_ms - header.base_timestamp_ms} ms in "
            f"the past; message.timestamp.before.max.ms is {before_max_ms}"
        )


def _check_keys(
    data: bytearray, position: int, header: BatchHeader, bounds: DecodingBounds
) -> None:
    records = decode_records(memoryview(data)[position : position + header.size_bytes], bounds)
    without = [index for index, record in enumerate(records) if record.key is None]
    if without:
        reason = "a compacted topic takes no record without a key"
        raise InvalidRecord(reason, without[0], dict.fromkeys(without, reason))


def _conform(
    data: bytearray,
    batches: list[PlacedBatch],
    config: TopicConfig,
    now_ms: int,
    bounds: DecodingBounds,
) -> tuple[bytearray, list[PlacedBatch]]:
    """Bring the batches into the compression and timestamp type that the topic asks for."""
    if config.compression_type != "producer":
        wanted = COMPRESSION_CODES[config.compression_type]
        if any(header.compression != wanted for _, header in batches):
            data, batches = _recompress(data, batches, wanted, bounds)
            for _, header in batches:
                _check_size(header, config)
    if config.message_timestamp_type == "LogAppendTime":
        for position, header in batches:
            stamp_append_time(data, position, header, now_ms)
        batches = [(position, check_batch(data, position)) for position, _ in batches]
    return data, batches


def _recompress(
    data: bytearray, batches: list[PlacedBatch], wanted: int, bounds: DecodingBounds
) -> tuple[bytearray, list[PlacedBatch]]:
    rewritten = bytearray()
    placed: list[PlacedBatch] = []
    for position, header in batches:
        batch = recompress(data[position : position + header.size_bytes], header, wanted, bounds)
        placed.append((len(rewritten), check_batch(batch)))
        rewritten += batch
    return rewritten, placed
