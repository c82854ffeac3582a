"""What a produced batch must be before a partition takes it."""

from typing import NamedTuple

from goqueue.model.batch import (
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    assign,
    check_batch,
    check_produced,
    with_place,
)
from goqueue.model.batch_editing import recompress, stamp_append_time
from goqueue.model.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from goqueue.model.records import COMPRESSION_CODES, decode_records
from goqueue.model.settings import INT64_MAX
from goqueue.model.topic_config import TopicConfig

PlacedBatch = tuple[int, BatchHeader]


class Admitted(NamedTuple):
    """Batches that a partition takes as they are, on their way to its log.

    `has_features`: some must be decoded for what their record headers ask. Times in microseconds
    are for the trace; 0 without one.
    """

    data: bytearray
    batches: list[PlacedBatch]
    now_ms: int
    has_features: bool
    started_us: int = 0
    admitted_us: int = 0


def check_rules(
    records: Buffer, config: TopicConfig, now_ms: int
) -> tuple[bytearray, list[PlacedBatch]]:
    """Check every batch in `records` against the topic's rules.

    Returns a copy that may be patched, with the position and header of each batch in it. Raises an
    `InvalidRequest` or `CorruptBatch` before anything is changed.
    """
    if not records:
        raise InvalidRecord("no record batch was sent")
    data = bytearray(records)
    batches: list[PlacedBatch] = []
    position = 0
    while position < len(data):
        header = check_produced(data, position)
        size_bytes = header.length + LENGTH_PREFIX_BYTES
        if size_bytes > config.max_message_bytes:
            raise RecordTooLarge(
                f"batch has {size_bytes} bytes; max.message.bytes is {config.max_message_bytes}"
            )
        _check_timestamps(header, config, now_ms)
        if config.is_compacted:
            _check_keys(data, position, header)
        batches.append((position, header))
        position += size_bytes
    if len(batches) > 1 and any(header.has_producer for _, header in batches):
        raise InvalidRecord("an idempotent producer sends one batch per partition and request")
    return _conform(data, batches, config, now_ms)


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


def _check_keys(data: bytearray, position: int, header: BatchHeader) -> None:
    records = decode_records(memoryview(data)[position : position + header.size_bytes])
    for index, record in enumerate(records):
        if record.key is None:
            raise InvalidRecord("a compacted topic takes no record without a key", index)


def _conform(
    data: bytearray, batches: list[PlacedBatch], config: TopicConfig, now_ms: int
) -> tuple[bytearray, list[PlacedBatch]]:
    """Bring the batches into the compression and timestamp type that the topic asks for."""
    if config.compression_type != "producer":
        wanted = COMPRESSION_CODES[config.compression_type]
        if any(header.compression != wanted for _, header in batches):
            data, batches = _recompress(data, batches, wanted)
    if config.message_timestamp_type == "LogAppendTime":
        for position, header in batches:
            stamp_append_time(data, position, header, now_ms)
        batches = [(position, check_batch(data, position)) for position, _ in batches]
    return data, batches


def _recompress(
    data: bytearray, batches: list[PlacedBatch], wanted: int
) -> tuple[bytearray, list[PlacedBatch]]:
    rewritten = bytearray()
    placed: list[PlacedBatch] = []
    for position, header in batches:
        batch = recompress(data[position : position + header.size_bytes], header, wanted)
        placed.append((len(rewritten), check_batch(batch)))
        rewritten += batch
    return rewritten, placed
