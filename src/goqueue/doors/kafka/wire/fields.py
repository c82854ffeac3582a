"""The fields of a Kafka message, as kio's generated dataclasses describe them."""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode

Buffer = bytes | bytearray | memoryview

NO_UUID: Final = UUID(int=0).bytes

# Clients say "for ever" with the largest number there is, which Python's time spans cannot hold.
_SPAN_MAX_MS: Final = timedelta.max // timedelta(milliseconds=1)


def _span(value_ms: int) -> timedelta:
    return timedelta(milliseconds=max(-_SPAN_MAX_MS, min(value_ms, _SPAN_MAX_MS)))


# Fixed-width types: struct format, and how to get from the raw number to the Python value.
FIXED: Final[Mapping[str, tuple[str, Callable[[Any], Any] | None]]] = {
    "bool": ("?", None),
    "int8": ("b", None),
    "int16": ("h", None),
    "int32": ("i", None),
    "int64": ("q", None),
    "uint8": ("B", None),
    "uint16": ("H", None),
    "uint32": ("I", None),
    "uint64": ("Q", None),
    "float64": ("d", None),
    "error_code": ("h", ErrorCode),
    "timedelta_i32": ("i", lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": ("q", _span),
    "datetime_i64": ("q", None),
    "uuid": ("16s", lambda value: None if value == NO_UUID else UUID(bytes=value)),
}

_IMPLICIT_DEFAULTS: Final[Mapping[str, Any]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "uuid": None,
    "records": None,
}


class Field(NamedTuple):
    """One field of a message, as kio's dataclass describes it."""

    name: str
    kafka_type: str | None
    entity: Any
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    has_default: bool

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.tag is None and self.kafka_type in FIXED


@cache
def fields_of(entity: Any) -> tuple[Field, ...]:
    return tuple(_field(field) for field in dataclasses.fields(entity))


def as_read(entity: Any) -> tuple[Field, ...]:
    """In the order of a message that was read: tagged fields come behind the others."""
    return tuple(sorted(fields_of(entity), key=lambda field: field.tag is not None))


def _field(field: "dataclasses.Field[Any]") -> Field:
    inner: Any = field.type
    is_nullable = False
    if get_origin(inner) is Union or type(inner).__name__ == "UnionType":
        is_nullable = type(None) in get_args(inner)
        (inner,) = (arg for arg in get_args(inner) if arg is not type(None))
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
    kafka_type = field.metadata.get("kafka_type")
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif is_array:
        default = ()
    else:
        default = _IMPLICIT_DEFAULTS.get(kafka_type, 0) if kafka_type else None
    return Field(
        name=field.name,
        kafka_type=kafka_type,
        entity=inner if kafka_type is None else None,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=field.metadata.get("tag"),
        default=default,
        has_default=field.default is not dataclasses.MISSING,
    )
