"""The answer to a fetch of one partition, read in place: its records are not copied.

Fetch, version 16: https://kafka.apache.org/protocol#The_Messages_Fetch
"""

import struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.client.flexible_fields import (
    after_head,
    read_varint,
    reading_fetch_answer,
    skip_tags,
)

_TOP: Final = struct.Struct(">ihi")
_PARTITION: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_TOPIC_ID_BYTES: Final = 16
_PREFERRED_REPLICA_BYTES: Final = 4


class FetchAnswer(NamedTuple):
    error: ErrorCode
    high_watermark: int
    aborted: list[tuple[int, int]]
    """(first offset, producer id)"""
    records: memoryview


def read_fetch_answer(frame: memoryview, correlation_id: int, address: str) -> FetchAnswer:
    """The one partition that was asked for; a topic-level error stands for it."""
    with reading_fetch_answer(address):
        return _read(frame, correlation_id)


def _read(frame: memoryview, correlation_id: int) -> FetchAnswer:
    position = after_head(frame, correlation_id)
    _, code, _ = _TOP.unpack_from(frame, position)
    topics, position = read_varint(frame, position + _TOP.size)
    if code or topics < 2:
        return FetchAnswer(ErrorCode(code), -1, [], frame[:0])
    partitions, position = read_varint(frame, position + _TOPIC_ID_BYTES)
    if partitions < 2:
        return FetchAnswer(ErrorCode.none, -1, [], frame[:0])
    _, code, high_watermark, _, _ = _PARTITION.unpack_from(frame, position)
    count, position = read_varint(frame, position + _PARTITION.size)
    aborted = []
    for _ in range(count - 1):
        producer_id, first_offset = _ABORTED.unpack_from(frame, position)
        aborted.append((first_offset, producer_id))
        position = skip_tags(frame, position + _ABORTED.size)
    length, position = read_varint(frame, position + _PREFERRED_REPLICA_BYTES)
    end = position + max(length - 1, 0)
    if end > len(frame):
        raise ValueError("records go beyond the answer")
    return FetchAnswer(ErrorCode(code), high_watermark, aborted, frame[position:end])
