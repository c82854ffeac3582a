"""Kafka requests of every operation and version, as small or as large as one likes.

They name topics that are there, so that a request gets as far as it can.
"""

import io
import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_writer

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.wire.fields import Field, fields_of
from goqueue.model.records import NewRecord, encode_records

# Topics that are there have this name and a number behind it; see `set_up` in `soak.py`.
NAME: Final = "hostile"
# Topics that requests make and delete.
FLEETING: Final = "fleeting"
_BATCH: Final = bytes(encode_records([NewRecord(value=b"hostile")], now_ms=1_700_000_000_000))
_LENGTH: Final = struct.Struct(">i")

# Values of fields by their name, in any operation.
Words = Mapping[str, Any]
_USUAL: Final[Words] = {
    # Zero would mean that nothing is answered.
    "acks": 1,
    "records": _BATCH,
    "num_partitions": 1,
    "replication_factor": 1,
    "assignments": (),
    "configs": (),
    "resource_type": 2,
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "max_bytes": 1_000_000,
    "partition_max_bytes": 1_000_000,
    "transactional_id": None,
    "topic_id": None,
}


def frame(operation: Operation, version: int, words: Words, repeat: int = 1, at: str = "") -> bytes:
    """A whole frame. `at`: the array, by name, that has `repeat` elements."""
    if operation.name in ("CreateTopics", "DeleteTopics"):
        words = {"name": FLEETING, **words}
    entity: Any = load_request_schema(operation.api_key, version)
    out = io.BytesIO()
    out.write(struct.pack(">hhih7s", operation.api_key, version, 5, 7, b"hostile"))
    out.write(b"\0" if entity.__flexible__ else b"")
    entity_writer(entity)(out, _filled(entity, {**_USUAL, **words}, repeat, at))
    body = out.getvalue()
    return _LENGTH.pack(len(body)) + body


def small_frames() -> list[bytes]:
    """One of each version of each operation."""
    return [
        frame(operation, version, {})
        for operation in OPERATIONS.values()
        for version in range(operation.min_version, operation.max_version + 1)
    ]


def arrays_of(operation: Operation) -> list[str]:
    """The names of the newest version's arrays, outer ones first."""
    entity: Any = load_request_schema(operation.api_key, operation.max_version)
    return list(dict.fromkeys(_arrays(entity)))


def _arrays(entity: Any) -> list[str]:
    found = []
    for field in fields_of(entity):
        if field.is_array and field.tag is None:
            found.append(field.name)
        if field.entity is not None:
            found += _arrays(field.entity)
    return found


def _filled(entity: Any, words: Words, repeat: int, at: str, number: int = 0) -> Any:
    return entity(
        **{field.name: _value(field, words, repeat, at, number) for field in fields_of(entity)}
    )


def _value(field: Field, words: Words, repeat: int, at: str, number: int) -> Any:
    if field.is_array and field.tag is None:
        if field.name != at and field.name in words:
            return words[field.name]
        count = repeat if field.name == at else 1
        if field.entity is not None:
            return tuple(_filled(field.entity, words, repeat, at, n) for n in range(count))
        return tuple(_element(field, words, n) for n in range(count))
    if field.entity is not None and field.tag is None:
        return _filled(field.entity, words, repeat, at, number)
    if field.name == "name" and "name" in words:
        return f"{words['name']}-{number}"
    return _typed(field, words[field.name]) if field.name in words else _own(field, number)


def _typed(field: Field, value: Any) -> Any:
    if value is None and not field.is_nullable:
        return _own(field, 0)
    if isinstance(value, int) and field.kafka_type in ("timedelta_i32", "timedelta_i64"):
        return timedelta(milliseconds=value)
    if value is not None and not isinstance(value, type(field.default)) and field.default:
        return field.default
    return value


def _own(field: Field, number: int) -> Any:
    """What makes one element of an array another one than the next."""
    if field.kafka_type == "string" and not field.is_array:
        return f"{NAME}-{number}"
    if field.kafka_type == "int32" and field.name in ("index", "partition", "partition_index"):
        return number
    if field.kafka_type == "uuid" and field.default is None:
        return UUID(int=number + 1)
    return field.default


def _element(field: Field, words: Words, number: int) -> Any:
    if field.kafka_type == "string":
        return f"{words.get('name', NAME)}-{number}"
    if field.kafka_type == "uuid":
        return UUID(int=number + 1)
    return number if field.kafka_type in ("int32", "int64") else field.default or 0
