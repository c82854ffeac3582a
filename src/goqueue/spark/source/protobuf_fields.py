"""Protobuf messages as Spark types, and payloads as rows of them.

A field that can be told to be absent is null where it is; others have their default, as every
Protobuf reader gives it. Unsigned numbers have a type that holds all of them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.client.registry import RegisteredSchema
from goqueue.model.schemas.message_indexes import read_message_indexes
from goqueue.spark.source.nesting import Nesting, nothing_left, too_deep
from goqueue.spark.source.protobuf_files import messages_at, named_message, protobuf_file

# As Protobuf's Python library reads it -> as Arrow takes it.
Shape = Callable[[Any], Any]

_UINT64_DIGITS: Final = 20
_MICROS: Final = 1_000_000
_NANOS_PER_MICRO: Final = 1_000
_PLAIN: Final[dict[int, DataType]] = {
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(_UINT64_DIGITS, 0),
}


@dataclass(frozen=True, slots=True)
class ProtobufColumn:
    type: DataType
    shape: Shape


def protobuf_column(message: Descriptor, max_depth: int) -> ProtobufColumn:
    found = _message(message, Nesting(max_depth), ())
    if found is None:
        raise nothing_left(message.full_name)
    return found


def protobuf_reader(
    chosen: RegisteredSchema,
    name: str,
    max_depth: int,
    writer_of: Callable[[int], RegisteredSchema],
) -> Callable[[bytes, int], Any]:
    """Reads (payload, id of the schema it was written with) as the chosen message."""
    message = named_message(protobuf_file(chosen), name)
    message_class = GetMessageClass(message)
    shape = protobuf_column(message, max_depth).shape

    @cache
    def written_with(schema_id: int) -> Any:
        return protobuf_file(writer_of(schema_id))

    @cache
    def names_at(schema_id: int, indexes: tuple[int, ...]) -> set[str]:
        return messages_at(written_with(schema_id), indexes)

    def read(payload: bytes, schema_id: int) -> Any:
        indexes, start = read_message_indexes(payload)
        names = names_at(schema_id, indexes)
        if message.full_name not in names:
            found = ", ".join(names) or f"nothing that stands at {list(indexes)}"
            raise ValueError(f"it is {found}, not {message.full_name}")
        return shape(message_class.FromString(payload[start:]))

    return read


def _message(message: Descriptor, nesting: Nesting, path: tuple[str, ...]) -> ProtobufColumn | None:
    """None where a message contains itself once too often."""
    name = message.full_name
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if not nesting.allows(name, path):
        return None
    fields: list[StructField] = []
    shapes: list[tuple[str, Shape]] = []
    left_out: list[str] = []
    for field in message.fields:
        nesting.count_field()
        found = _field(field, nesting, (*path, name))
        if found is None:
            left_out.append(field.name)
            continue
        fields.append(StructField(field.name, found.type))
        shapes.append((field.name, found.shape))
    if left_out and not fields:
        return None

    def shape(value: Any) -> Any:
        for absent in left_out:
            if _is_set(value, absent):
                raise too_deep(f"{name}.{absent}", nesting.max_depth)
        return {each: inner(value) for each, inner in shapes}

    return ProtobufColumn(StructType(fields), shape)


def _is_set(message: Message, name: str) -> bool:
    return any(field.name == name for field, _ in message.ListFields())


def _field(
    field: FieldDescriptor, nesting: Nesting, path: tuple[str, ...]
) -> ProtobufColumn | None:
    """The shape takes the message that the field belongs to."""
    name = field.name
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map_field(name, entry, nesting, path)
    found = _single(field, nesting, path)
    if found is None:
        return None
    inner = found.shape
    if field.is_repeated:
        return ProtobufColumn(
            ArrayType(found.type),
            lambda message: [inner(each) for each in getattr(message, name)],
        )
    if field.has_presence:
        return ProtobufColumn(
            found.type,
            lambda message: inner(getattr(message, name)) if message.HasField(name) else None,
        )
    return ProtobufColumn(found.type, lambda message: inner(getattr(message, name)))


def _map_field(
    name: str, entry: Descriptor, nesting: Nesting, path: tuple[str, ...]
) -> ProtobufColumn | None:
    keys = _single(entry.fields_by_name["key"], nesting, path)
    values = _single(entry.fields_by_name["value"], nesting, path)
    if keys is None or values is None:
        return None
    key_shape, value_shape = keys.shape, values.shape

    def shape(message: Any) -> Any:
        held = getattr(message, name)
        return [(key_shape(key), value_shape(held[key])) for key in held]

    return ProtobufColumn(MapType(keys.type, values.type), shape)


def _single(
    field: FieldDescriptor, nesting: Nesting, path: tuple[str, ...]
) -> ProtobufColumn | None:
    if field.message_type is not None:
        return _message(field.message_type, nesting, path)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        # A number that a newer writer has a name for.
        return ProtobufColumn(StringType(), lambda number: names.get(number) or str(number))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return ProtobufColumn(BinaryType(), _as_it_is)
    return ProtobufColumn(_PLAIN[field.cpp_type], _as_it_is)


def _as_it_is(value: Any) -> Any:
    return value


def _microseconds(value: Any) -> int:
    return int(value.seconds) * _MICROS + int(value.nanos) // _NANOS_PER_MICRO


def _json_text(value: Any) -> str:
    # Values without a bound on their depth have no type of Spark's.
    return json.dumps(MessageToDict(cast(Message, value)))


_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": ProtobufColumn(TimestampType(), _microseconds),
    "google.protobuf.Duration": ProtobufColumn(DayTimeIntervalType(), _microseconds),
    "google.protobuf.Struct": ProtobufColumn(StringType(), _json_text),
    "google.protobuf.Value": ProtobufColumn(StringType(), _json_text),
    "google.protobuf.ListValue": ProtobufColumn(StringType(), _json_text),
}
