"""Protobuf columns that are decoded whole hold what the decoder of single records reads."""

import base64
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from goqueue.client.registry import RegisteredSchema
from goqueue.model.errors import GoQueueError
from goqueue.spark.source.columnar.formats import protobuf_decoder
from goqueue.spark.source.protobuf_fields import protobuf_column, protobuf_reader
from goqueue.spark.source.protobuf_files import named_message, protobuf_file
from goqueue.spark.source.row_decoding import RowDecoder
from goqueue.spark.source.writer_schemas import FOLLOW, WriterSchemas

ONE = FieldDescriptorProto.LABEL_OPTIONAL
MANY = FieldDescriptorProto.LABEL_REPEATED
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
PLAIN = {
    FieldDescriptorProto.TYPE_BOOL: st.booleans(),
    FieldDescriptorProto.TYPE_INT32: INT32,
    FieldDescriptorProto.TYPE_INT64: INT64,
    FieldDescriptorProto.TYPE_UINT32: UINT32,
    FieldDescriptorProto.TYPE_SINT32: INT32,
    FieldDescriptorProto.TYPE_SINT64: INT64,
    FieldDescriptorProto.TYPE_SFIXED32: INT32,
    FieldDescriptorProto.TYPE_SFIXED64: INT64,
    FieldDescriptorProto.TYPE_FIXED32: UINT32,
    FieldDescriptorProto.TYPE_FLOAT: st.floats(width=32, allow_nan=False),
    FieldDescriptorProto.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptorProto.TYPE_STRING: st.text(max_size=20),
    FieldDescriptorProto.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptorProto.TYPE_ENUM: st.sampled_from([0, 1, -5]),
}
# Fields of a message: values by name, or the fields of an inner message.
Values = dict[str, Any]


def registered(*messages: DescriptorProto) -> RegisteredSchema:
    file = FileDescriptorProto(syntax="proto3", package="shop", message_type=list(messages))
    file.dependency.append("google/protobuf/timestamp.proto")
    enum = file.enum_type.add(name="Colour")
    for name, number in (("NONE", 0), ("A_RATHER_LONG_NAME_OF_RED", 1), ("BELOW", -5)):
        enum.value.add(name=name, number=number)
    text = base64.b64encode(file.SerializeToString()).decode()
    return RegisteredSchema(type="PROTOBUF", text=text, references={})


@st.composite
def messages(draw: st.DrawFn, depth: int = 0) -> tuple[DescriptorProto, st.SearchStrategy[Values]]:
    """A message and values for it, some of them absent."""
    message = DescriptorProto(name=f"M{depth}")
    values: dict[str, Any] = {}
    numbers = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True))
    for index, number in enumerate(numbers):
        name = f"f{index}"
        field = message.field.add(name=name, number=number, label=ONE)
        kinds = ["plain"] * 4 + ["time", *(["message"] if depth < 2 else [])]
        match draw(st.sampled_from(kinds)):
            case "plain":
                field.type = draw(st.sampled_from(sorted(PLAIN)))
                if field.type == FieldDescriptorProto.TYPE_ENUM:
                    field.type_name = ".shop.Colour"
                if draw(st.booleans()):
                    field.proto3_optional = True
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{name}")
                values[name] = PLAIN[field.type]
            case "time":
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = ".google.protobuf.Timestamp"
                seconds = st.integers(-62_135_596_800, 253_402_300_799)
                values[name] = st.fixed_dictionaries(
                    {"seconds": seconds, "nanos": st.integers(0, 999_999_999)}
                )
            case _:
                inner, fields = draw(messages(depth + 1))
                inner.name = f"{inner.name}_{index}"
                message.nested_type.append(inner)
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = inner.name
                values[name] = fields
    return message, st.fixed_dictionaries({}, optional=values)


def written(message: Descriptor, values: Values) -> bytes:
    built = GetMessageClass(message)()
    fill(built, values)
    return bytes(built.SerializeToString())


def fill(message: Any, values: Values) -> None:
    message.SetInParent()
    for name, value in values.items():
        if isinstance(value, dict):
            fill(getattr(message, name), value)
        else:
            setattr(message, name, value)


class _Schemas(WriterSchemas):
    def __init__(self, known: RegisteredSchema) -> None:
        self._known = known
        self.evolution = FOLLOW

    def of(self, schema_id: int) -> RegisteredSchema:
        return self._known

    def newer_version(self, schema_id: int) -> int | None:
        return None


def decoders(
    schema: RegisteredSchema, name: str = "", *, skip_undecodable: bool = False
) -> tuple[RowDecoder, Callable[[Any], Any]]:
    """(by row, whole with the given one as its help)"""
    schemas = _Schemas(schema)
    message = named_message(protobuf_file(schema), name)
    arrow_type = to_arrow_type(protobuf_column(message, 5).type, timezone="UTC")
    by_row = RowDecoder(
        "value",
        protobuf_reader(schema, name, 5, schemas.of),
        arrow_type,
        schemas,
        skip_undecodable=skip_undecodable,
    )
    return by_row, lambda other: protobuf_decoder(schema, name, arrow_type, schemas, other)


def payload(content: bytes, indexes: bytes = b"\0") -> bytes:
    return struct.pack(">bi", 0, 7) + indexes + content


def never(_column: Any, _offsets: Any) -> Any:
    raise AssertionError("a good column went to the decoder of single records")


def offsets(rows: Any) -> Any:
    return np.arange(len(rows), dtype=np.int64)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages(), st.data())
def test_good_values_are_read_whole(
    found: tuple[DescriptorProto, st.SearchStrategy[Values]], data: st.DataObject
) -> None:
    schema = registered(found[0])
    message = named_message(protobuf_file(schema), "")
    drawn = data.draw(st.lists(found[1], min_size=1, max_size=4))
    contents = [written(message, values) for values in drawn]
    # Two messages one after the other are one: the later fields count, inner messages are merged.
    contents.append(contents[0] + contents[-1])
    rows = [*(payload(each) for each in contents), None]
    by_row, whole = decoders(schema)
    column = pa.array(rows, pa.binary())
    expected = by_row(column, offsets(rows))
    assert whole(never)(column, offsets(rows)).equals(expected)
    assert whole(never)(column[1:], offsets(rows[1:])).equals(expected[1:])


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages(), st.data())
def test_damage_is_what_it_is_to_the_decoder_of_single_records(
    found: tuple[DescriptorProto, st.SearchStrategy[Values]], data: st.DataObject
) -> None:
    schema = registered(found[0])
    message = named_message(protobuf_file(schema), "")
    rows = []
    for values in data.draw(st.lists(found[1], min_size=1, max_size=3)):
        content = bytearray(payload(written(message, values)))
        for _ in range(data.draw(st.integers(0, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        rows.append(bytes(content[: data.draw(st.integers(0, len(content)))]))
    by_row, whole = decoders(schema, skip_undecodable=True)
    column = pa.array(rows, pa.binary())
    assert outcome(whole(by_row), column) == outcome(by_row, column)


def outcome(decode: Any, column: Any) -> str:
    try:
        return str(decode(column, offsets(column)).to_pylist())
    except (GoQueueError, ValueError, KeyError, OverflowError) as error:
        return type(error).__name__


def message_of(**fields: tuple[Any, Any]) -> DescriptorProto:
    message = DescriptorProto(name="Whole")
    for number, (name, (kind, label)) in enumerate(fields.items(), start=1):
        message.field.add(name=name, number=number, type=kind, label=label)
    return message


def test_fields_that_nobody_knows_are_passed_over() -> None:
    kind = FieldDescriptorProto
    newer = message_of(
        a=(kind.TYPE_INT64, ONE), b=(kind.TYPE_STRING, ONE), c=(kind.TYPE_DOUBLE, ONE)
    )
    older = message_of(a=(kind.TYPE_INT64, ONE))
    message = named_message(protobuf_file(registered(newer)), "")
    rows = [payload(written(message, {"a": 5, "b": "x", "c": 1.5}))] * 2
    _, whole = decoders(registered(older))
    assert whole(never)(pa.array(rows, pa.binary()), offsets(rows)).to_pylist() == [{"a": 5}] * 2


def of_a_choice() -> DescriptorProto:
    message = message_of(
        a=(FieldDescriptorProto.TYPE_INT32, ONE), b=(FieldDescriptorProto.TYPE_INT32, ONE)
    )
    message.oneof_decl.add(name="choice")
    for field in message.field:
        field.oneof_index = 0
    return message


@pytest.mark.parametrize(
    "message",
    [
        message_of(a=(FieldDescriptorProto.TYPE_INT32, MANY)),
        message_of(a=(FieldDescriptorProto.TYPE_UINT64, ONE)),
        of_a_choice(),
    ],
    ids=["repeated", "64 bits without a sign", "choice"],
)
def test_other_messages_are_for_the_decoder_of_single_records(message: DescriptorProto) -> None:
    by_row, whole = decoders(registered(message))
    assert whole(by_row) is by_row


def test_another_message_than_the_first() -> None:
    kind = FieldDescriptorProto.TYPE_INT32
    first, second = message_of(a=(kind, ONE)), message_of(b=(kind, ONE))
    second.name = "Second"
    schema = registered(first, second)
    rows = [payload(b"\x08\x05", b"\x02\x02")]
    by_row, whole = decoders(schema, "Second")
    column = pa.array(rows, pa.binary())
    assert whole(by_row)(column, offsets(rows)).to_pylist() == [{"b": 5}]
    by_row, whole = decoders(schema, "Second", skip_undecodable=True)
    column = pa.array([payload(b"\x08\x05")], pa.binary())
    assert whole(by_row)(column, offsets(rows)).to_pylist() == [None]
