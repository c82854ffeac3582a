"""Avro and Protobuf values that Spark has no plain type for."""

import base64
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_format import Parse

from goqueue.client.registry import RegisteredSchema
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.avro_fields import avro_column, avro_reader, parse_avro
from goqueue.spark.source.protobuf_fields import protobuf_column, protobuf_reader
from goqueue.spark.source.protobuf_files import named_message, protobuf_file

THING = {"type": "record", "name": "Thing", "fields": [{"name": "a", "type": "int"}]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "a", "type": "int"}]}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
MIXED = [
    "null",
    "string",
    "boolean",
    "double",
    COLOUR,
    THING,
    PLACE,
    {"type": "map", "values": "long"},
]
NODE: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "namespace": "tree",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
    ],
}


def avro(schema: object) -> RegisteredSchema:
    return RegisteredSchema(type="AVRO", text=json.dumps(schema), references={})


def read_back(schema: object, value: Any, depth: int = 5, reader: object = None) -> Any:
    written = parse_avro(avro(schema))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, written, value)
    chosen = parse_avro(avro(reader or schema))
    column = avro_column(chosen, depth)
    return avro_reader(chosen, column.shape, lambda _id: avro(schema))(stream.getvalue(), 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("x", {"member0": "x"}),
        (True, {"member1": True}),
        (1.5, {"member2": 1.5}),
        (("Colour", "RED"), {"member3": "RED"}),
        (("Thing", {"a": 1}), {"member4": {"a": 1}}),
        (("Place", {"a": 1}), {"member5": {"a": 1}}),
        ({"k": 1}, {"member6": {"k": 1}}),
    ],
)
def test_each_member_of_a_union_has_its_field(value: Any, expected: Any) -> None:
    assert read_back(MIXED, value) == expected
    record = {"type": "record", "name": "R", "fields": [{"name": "u", "type": MIXED}]}
    assert read_back(record, {"u": value}) == {"u": expected}


def test_a_union_is_a_struct_as_spark_makes_it() -> None:
    column = avro_column(parse_avro(avro(["null", "int", "string"])), 5)
    assert column.type.simpleString() == "struct<member0:int,member1:string>"


def test_a_writer_without_the_union_is_read_into_it() -> None:
    assert read_back(THING, {"a": 3}, reader=["null", "string", THING]) == {"member1": {"a": 3}}


def nodes(depth: int) -> dict[str, Any]:
    return {"id": depth, "children": [nodes(depth - 1)] if depth > 1 else []}


def test_a_type_that_contains_itself_has_a_depth() -> None:
    column = avro_column(parse_avro(avro(NODE)), 3)
    assert column.type.simpleString() == (
        "struct<id:int,children:array<struct<id:int,children:array<struct<id:int>>>>>"
    )
    assert read_back(NODE, nodes(3), depth=3) == {
        "id": 3,
        "children": [{"id": 2, "children": [{"id": 1}]}],
    }
    with pytest.raises(ValueError, match=r"tree\.Node\.children goes deeper.*MaxDepth=3; raise"):
        read_back(NODE, nodes(4), depth=3)


def test_types_without_an_end_are_refused() -> None:
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": "Chain"}]}
    with pytest.raises(InvalidOption, match="no fields but such that contain itself"):
        avro_column(parse_avro(avro(chain)), 5)
    many = [{"name": f"f{number}", "type": ["null", "Wide"]} for number in range(8)]
    wide = {"type": "record", "name": "Wide", "fields": [{"name": "a", "type": "int"}, *many]}
    with pytest.raises(InvalidOption, match="lower recursiveFieldMaxDepth"):
        avro_column(parse_avro(avro(wide)), 15)


PROTO = """
syntax: "proto3"
package: "shop"
dependency: "google/protobuf/struct.proto"
dependency: "google/protobuf/timestamp.proto"
dependency: "confluent/meta.proto"
dependency: "confluent/type/decimal.proto"
message_type {
  name: "Other"
  field { name: "x" number: 1 type: TYPE_STRING ONE }
}
message_type {
  name: "Item"
  field { name: "big" number: 1 type: TYPE_UINT64 ONE }
  field { name: "small" number: 2 type: TYPE_UINT32 ONE }
  field { name: "note" number: 3 type: TYPE_STRING ONE proto3_optional: true oneof_index: 0 }
  field { name: "colour" number: 4 type: TYPE_ENUM type_name: ".shop.Colour" ONE }
  field { name: "prices" number: 5 MESSAGE ".shop.Item.PricesEntry" MANY }
  field { name: "parts" number: 6 MESSAGE ".shop.Item" MANY }
  field { name: "free" number: 7 MESSAGE ".google.protobuf.Struct" ONE }
  field { name: "at" number: 8 MESSAGE ".google.protobuf.Timestamp" ONE }
  field { name: "cost" number: 9 MESSAGE ".confluent.type.Decimal" ONE }
  oneof_decl { name: "_note" }
  nested_type {
    name: "PricesEntry"
    field { name: "key" number: 1 type: TYPE_STRING ONE }
    field { name: "value" number: 2 type: TYPE_DOUBLE ONE }
    options { map_entry: true }
  }
  nested_type {
    name: "Inner"
    field { name: "y" number: 1 type: TYPE_BYTES ONE }
  }
}
enum_type {
  name: "Colour"
  value { name: "NONE" number: 0 }
  value { name: "RED" number: 1 }
}
"""
SHORT = {
    "ONE": "label: LABEL_OPTIONAL",
    "MANY": "label: LABEL_REPEATED",
    "MESSAGE": "type: TYPE_MESSAGE type_name:",
}


@pytest.fixture(scope="module")
def proto() -> RegisteredSchema:
    described = re.sub(r"\b(ONE|MANY|MESSAGE)\b", lambda found: SHORT[found[0]], PROTO)
    file = Parse(described, FileDescriptorProto())
    text = base64.b64encode(file.SerializeToString()).decode()
    return RegisteredSchema(type="PROTOBUF", text=text, references={})


@pytest.fixture(scope="module")
def make(proto: RegisteredSchema) -> Callable[..., Any]:
    item = GetMessageClass(named_message(protobuf_file(proto), "Item"))
    return lambda **fields: item(**fields)


def reader(proto: RegisteredSchema, name: str, depth: int = 2) -> Callable[[bytes, int], Any]:
    return protobuf_reader(proto, name, depth, lambda _id: proto)


def test_protobuf_types(proto: RegisteredSchema) -> None:
    column = protobuf_column(named_message(protobuf_file(proto), "shop.Item"), 1)
    assert column.type.simpleString() == (
        "struct<big:decimal(20,0),small:bigint,note:string,colour:string,"
        "prices:map<string,double>,free:string,at:timestamp,"
        "cost:struct<value:binary,precision:bigint,scale:int>>"
    )


def test_protobuf_values(proto: RegisteredSchema, make: Callable[..., Any]) -> None:
    free = struct_pb2.Struct()
    free.update({"k": [1, "x"]})
    message = make(
        big=2**64 - 1, small=2**32 - 1, colour=1, prices={"a": 1.5}, parts=[make(note="")]
    )
    # Of another pool than the message's.
    message.free.ParseFromString(free.SerializeToString())
    at = timestamp_pb2.Timestamp(seconds=5, nanos=6_000)
    message.at.ParseFromString(at.SerializeToString())
    found = reader(proto, "Item")(b"\x02\x02" + message.SerializeToString(), 1)
    assert (found["big"], found["small"]) == (Decimal(2**64 - 1), 2**32 - 1)
    assert (found["note"], found["colour"], found["prices"]) == (None, "RED", [("a", 1.5)])
    assert (found["parts"][0]["note"], found["parts"][0]["colour"]) == ("", "NONE")
    assert (json.loads(found["free"]), found["at"]) == ({"k": [1.0, "x"]}, 5_000_006)
    assert found["cost"] is None


def test_protobuf_that_goes_deeper(proto: RegisteredSchema, make: Callable[..., Any]) -> None:
    deep = make(parts=[make(parts=[make()])])
    with pytest.raises(ValueError, match=r"shop\.Item\.parts goes deeper"):
        reader(proto, "Item", depth=2)(b"\x02\x02" + deep.SerializeToString(), 1)
    assert reader(proto, "Item", depth=3)(b"\x02\x02" + deep.SerializeToString(), 1)


def test_another_message_is_named(proto: RegisteredSchema) -> None:
    assert reader(proto, "")(b"\0" + b"\x0a\x01x", 1) == {"x": "x"}
    with pytest.raises(ValueError, match=r"it is shop\.Other, not shop\.Item"):
        reader(proto, "Item")(b"\0", 1)
    with pytest.raises(ValueError, match=r"nothing that stands at \[9\]"):
        reader(proto, "Item")(b"\x02\x12", 1)
    with pytest.raises(InvalidOption, match=r"no message 'Itm'; there are shop\.Other, shop\.Item"):
        reader(proto, "Itm")
    # Nested, with the messages of maps counted and without.
    for indexes in (b"\x04\x02\x02", b"\x04\x02\x00"):
        assert reader(proto, "Item.Inner")(indexes + b"\x0a\x01y", 1) == {"y": b"y"}


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x80", b"\x41", b"\x02\x01"])
def test_message_indexes_that_are_none(proto: RegisteredSchema, payload: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        reader(proto, "Item")(payload, 1)
