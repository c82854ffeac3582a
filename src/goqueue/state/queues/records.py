"""How queues are stored: three kinds of keys in a log where the last value of a key wins.

    queue  (group, topic id, partition)         -> generation, start offset, settings
    floor  (group, topic id, partition)         -> generation, floor, whole blocks settled above it
    block  (group, topic id, partition, number) -> generation, the marks of its 1,024 offsets

Generations make the order of records of different keys irrelevant: a reset is one `queue` record
of a higher generation, whatever of the old floor and blocks is still in the log counts no more.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueKey
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import StateRecord


class HeadKey(msgspec.Struct, frozen=True, array_like=True, tag="queue"):
    group: str
    topic_id: UUID
    partition: int


class FloorKey(msgspec.Struct, frozen=True, array_like=True, tag="floor"):
    group: str
    topic_id: UUID
    partition: int


class BlockKey(msgspec.Struct, frozen=True, array_like=True, tag="block"):
    group: str
    topic_id: UUID
    partition: int
    number: int


class HeadValue(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    start: int
    settings: QueueSettings


class FloorValue(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    floor: int
    # Numbers of whole blocks above the floor: start and end of each run.
    full: list[OffsetRange]


class BlockValue(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    starts: list[int]
    marks: list[int]


_ENCODER: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_KEY_DECODER: Final = msgspec.msgpack.Decoder(HeadKey | FloorKey | BlockKey)
_HEAD_DECODER: Final = msgspec.msgpack.Decoder(HeadValue)
_FLOOR_DECODER: Final = msgspec.msgpack.Decoder(FloorValue)
_BLOCK_DECODER: Final = msgspec.msgpack.Decoder(BlockValue)


def _encoded(value: HeadValue | FloorValue | BlockValue | None) -> bytes | None:
    return None if value is None else _ENCODER.encode(value)


def head_record(key: QueueKey, value: HeadValue | None) -> StateRecord:
    return StateRecord(_ENCODER.encode(HeadKey(*key)), _encoded(value))


def floor_record(key: QueueKey, value: FloorValue | None) -> StateRecord:
    return StateRecord(_ENCODER.encode(FloorKey(*key)), _encoded(value))


def block_record(key: QueueKey, number: int, value: BlockValue | None) -> StateRecord:
    return StateRecord(_ENCODER.encode(BlockKey(*key, number)), _encoded(value))


def block_tombstones(key: QueueKey, numbers: Iterable[int]) -> list[StateRecord]:
    return [block_record(key, number, None) for number in numbers]


class Decoded(NamedTuple):
    queue: QueueKey
    key: HeadKey | FloorKey | BlockKey
    value: HeadValue | FloorValue | BlockValue | None


def decode(record: StateRecord) -> Decoded:
    key = _KEY_DECODER.decode(record.key)
    queue = QueueKey(key.group, key.topic_id, key.partition)
    if record.value is None:
        return Decoded(queue, key, None)
    if isinstance(key, BlockKey):
        return Decoded(queue, key, _BLOCK_DECODER.decode(record.value))
    if isinstance(key, FloorKey):
        return Decoded(queue, key, _FLOOR_DECODER.decode(record.value))
    return Decoded(queue, key, _HEAD_DECODER.decode(record.value))
