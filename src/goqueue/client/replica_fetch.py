"""What a follower asks its leader, and the answer, as bytes: Fetch, version 17, with the replica's
id and epoch (KIP-903), in sessions (KIP-227) and with the end of histories that part (KIP-595).

Written and read by hand: a follower does nothing else all day, and what it gets is not copied.
https://kafka.apache.org/protocol#The_Messages_Fetch
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from goqueue.client.flexible_fields import (
    after_head,
    read_tags,
    read_varint,
    reading_fetch_answer,
    skip_tags,
)

_VERSION: Final = 17
_HEADER: Final = struct.Struct(">hhih")
_CLIENT_ID: Final = b"goqueue-replica"
_TOP: Final = struct.Struct(">iiibii")
# The last byte of each says that there are no tagged fields.
_ASKED: Final = struct.Struct(">iiqiqiB")
_INDEX: Final = struct.Struct(">i")
# One tagged field: the first, of thirteen bytes.
_REPLICA: Final = struct.Struct(">BBBiqB")
_LENGTH: Final = struct.Struct(">i")
_ANSWER_TOP: Final = struct.Struct(">ihi")
_ANSWERED: Final = struct.Struct(">ihqqq")
_ABORTED_BYTES: Final = 16
_PREFERRED_REPLICA_BYTES: Final = 4
_DIVERGING_TAG: Final = 0
_DIVERGING: Final = struct.Struct(">iq")
_TOPIC_ID_BYTES: Final = 16

# A topic's id, as bytes, and an index.
ReplicaKey = tuple[bytes, int]


class AskedPart(NamedTuple):
    key: ReplicaKey
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int


class ReplicaRequest(NamedTuple):
    node_id: int
    broker_epoch: int
    session_id: int
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    part_max_bytes: int
    asked: Sequence[AskedPart]
    forgotten: Sequence[ReplicaKey]


class AnsweredPart(NamedTuple):
    """`diverging` is an epoch of the leader's and where it ends. `records` are valid as long as the
    frame is."""

    key: ReplicaKey
    error: int
    high_watermark: int
    log_start: int
    diverging: tuple[int, int] | None
    records: memoryview


class ReplicaAnswer(NamedTuple):
    error: int
    session_id: int
    parts: list[AnsweredPart]


def replica_frame(request: ReplicaRequest, correlation_id: int) -> bytes:
    out = bytearray(_LENGTH.size)
    out += _HEADER.pack(1, _VERSION, correlation_id, len(_CLIENT_ID))
    out += _CLIENT_ID
    out.append(0)
    out += _TOP.pack(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        0,
        request.session_id,
        request.session_epoch,
    )
    _put_asked(out, request)
    _put_forgotten(out, request.forgotten)
    out.append(1)  # no rack
    out += _REPLICA.pack(1, 1, 13, request.node_id, request.broker_epoch, 0)
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return bytes(out)


def _put_asked(out: bytearray, request: ReplicaRequest) -> None:
    by_topic: dict[bytes, list[AskedPart]] = {}
    for part in request.asked:
        by_topic.setdefault(part.key[0], []).append(part)
    _put_varint(out, len(by_topic) + 1)
    for topic_id, parts in by_topic.items():
        out += topic_id
        _put_varint(out, len(parts) + 1)
        for (_, index), leader_epoch, offset, last_epoch, log_start in parts:
            out += _ASKED.pack(
                index, leader_epoch, offset, last_epoch, log_start, request.part_max_bytes, 0
            )
        out.append(0)


def _put_forgotten(out: bytearray, forgotten: Sequence[ReplicaKey]) -> None:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in forgotten:
        by_topic.setdefault(topic_id, []).append(index)
    _put_varint(out, len(by_topic) + 1)
    for topic_id, indexes in by_topic.items():
        out += topic_id
        _put_varint(out, len(indexes) + 1)
        for index in indexes:
            out += _INDEX.pack(index)
        out.append(0)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_replica_answer(frame: memoryview, correlation_id: int, address: str) -> ReplicaAnswer:
    """What a frame says, without its length; `BrokerUnreachable` if it is no answer to a fetch."""
    with reading_fetch_answer(address):
        return _read(frame, correlation_id)


def _read(frame: memoryview, correlation_id: int) -> ReplicaAnswer:
    position = after_head(frame, correlation_id)
    _, error, session_id = _ANSWER_TOP.unpack_from(frame, position)
    count, position = read_varint(frame, position + _ANSWER_TOP.size)
    parts: list[AnsweredPart] = []
    for _ in range(count - 1):
        topic_id = bytes(frame[position : position + _TOPIC_ID_BYTES])
        part_count, position = read_varint(frame, position + _TOPIC_ID_BYTES)
        for _ in range(part_count - 1):
            part, position = _read_part(frame, position, topic_id)
            parts.append(part)
        position = skip_tags(frame, position)
    if skip_tags(frame, position) != len(frame):
        raise ValueError("the answer has another length than its parts")
    return ReplicaAnswer(error, session_id, parts)


def _read_part(frame: memoryview, position: int, topic_id: bytes) -> tuple[AnsweredPart, int]:
    index, error, high_watermark, _, log_start = _ANSWERED.unpack_from(frame, position)
    aborted, position = read_varint(frame, position + _ANSWERED.size)
    for _ in range(aborted - 1):
        position = skip_tags(frame, position + _ABORTED_BYTES)
    size, position = read_varint(frame, position + _PREFERRED_REPLICA_BYTES)
    end = position + max(size - 1, 0)
    if end > len(frame):
        raise ValueError("records go beyond the answer")
    records = frame[position:end]
    diverging: tuple[int, int] | None = None
    for tag, start, next_tag in read_tags(frame, end):
        position = next_tag
        if tag == _DIVERGING_TAG:
            epoch, end_offset = _DIVERGING.unpack_from(frame, start)
            diverging = (epoch, end_offset)
    part = AnsweredPart((topic_id, index), error, high_watermark, log_start, diverging, records)
    return part, position
