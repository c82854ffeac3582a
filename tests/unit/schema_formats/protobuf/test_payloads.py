"""Payloads as Confluent's serialiser writes them, and broken ones."""

import base64
import pickle
import threading
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from goqueue.schema_formats import InvalidContent, ResolvedReference, SchemaSource, SchemaType
from goqueue.schema_formats.protobuf import make_validator, parse, serialized

PREFIX_BYTES = 5
SHOP = """syntax = "proto3"; package shop;
message Order {
  string id = 1;
  message Early { int32 n = 1; }
  map<string, Line> lines = 2;
  message Line { int64 count = 1; repeated string tags = 2; message Note { string text = 1; } }
  optional Kind kind = 3;
  enum Kind { NONE = 0; GIFT = 1; }
}
message Customer { string name = 1; Customer friend = 2; }
"""
LEGACY = """syntax = "proto2";
message Old { required string id = 1; optional Part part = 2; optional Kind kind = 3;
  message Part { required int32 n = 1; } enum Kind { NONE = 0; } }
"""


def source(text: str, *references: ResolvedReference) -> SchemaSource:
    return SchemaSource(SchemaType.PROTOBUF, text, references)


def message_class(text: str, name: str) -> Any:
    file = FileDescriptorProto.FromString(base64.b64decode(serialized(source(text))))
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def written_by_confluent(message: Any) -> bytes:
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = ProtobufSerializer(type(message), client)
    written: bytes = serializer(message, SerializationContext("topic", MessageField.VALUE))
    return written[PREFIX_BYTES:]


def refusal(text: str, payload: bytes) -> str:
    with pytest.raises(InvalidContent) as refused:
        make_validator(source(text))(payload)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("shop.Order", {}),
        ("shop.Order", {"id": "a", "kind": 1, "lines": {"x": {"count": 3, "tags": ["é", "b"]}}}),
        ("shop.Order", {"kind": 77}),
        ("shop.Order.Early", {"n": -1}),
        ("shop.Order.Line", {"count": 2**62}),
        ("shop.Order.Line.Note", {"text": "deep"}),
        ("shop.Customer", {"name": "Ann", "friend": {"name": "Bob"}}),
    ],
)
def test_confluents_serialiser(name: str, fields: dict[str, Any]) -> None:
    payload = written_by_confluent(ParseDict(fields, message_class(SHOP, name)()))
    stored = parse(source(SHOP)).canonical
    normal = parse(source(SHOP), normalize=True).canonical
    for text in (SHOP, stored, normal, serialized(source(SHOP))):
        make_validator(source(text))(payload)
        make_validator(source(text))(memoryview(payload))  # type: ignore[arg-type]


def test_indexes_that_do_not_count_map_entries() -> None:
    # Order's nested messages by text: Early, Line; in its descriptor: Early, LinesEntry, Line.
    content = message_class(SHOP, "shop.Order.Line")(count=5).SerializeToString()
    make_validator(source(SHOP))(b"\x04\x00\x02" + content)
    make_validator(source(SHOP))(b"\x04\x00\x04" + content)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (b"\x02", "cut off"),
        (b"\x02\x80", "cut off"),
        (b"\xff\xff\xff\xff\xff\xff", "too long"),
        (b"\x01", "-1 message indexes"),
        (b"\x42\x00", "33 message indexes"),
        (b"\x02\x01", "index -1 is below 0"),
        (b"\x02\x04", r"no message at the payload's message indexes \[2\]"),
        (b"\x04\x00\x06", r"indexes \[0, 3\]"),
        (b"\x06\x02\x00\x00", r"indexes \[1, 0, 0\]"),
        (b"\x00\x0a\x05ab", "no shop.Order"),
        (b"\x00\x0a", "no shop.Order"),
        (b"\x00\x0a\x02\xc3\x28", "UTF-8"),
        (b"\x00\x07", "no shop.Order"),
        (b"\x00\x0f\x00", "no shop.Order"),
        (b"\x00\x08\x01", "field shop.Order.id has another type"),
        (b"\x02\x02\x12\x02\x08\x01", "field shop.Customer.name has another type"),
        (b"\x00\x12\x05\x0a\x01a\x12\x00\x0b", "no shop.Order"),
        (b"\x00" + b"\x12\x7f" * 200, "no shop.Order"),
    ],
)
def test_broken_payloads(payload: bytes, reason: str) -> None:
    with pytest.raises(InvalidContent, match=reason):
        make_validator(source(SHOP))(payload)


def test_a_map_value_of_another_type() -> None:
    line = b"\x0a\x01a"  # text where the count is
    entry = b"\x0a\x01k\x12" + bytes([len(line)]) + line
    payload = b"\x00\x12" + bytes([len(entry)]) + entry
    assert "field shop.Order.Line.count has another type" in refusal(SHOP, payload)


def test_unknown_fields_pass() -> None:
    validate = make_validator(source(SHOP))
    validate(b"\x00\x0a\x01a\xa2\x06\x03new")
    validate(b"\x02\x02\x12\x05\xa2\x06\x02\xff\xff")


def test_what_proto2_requires() -> None:
    assert "required id not set" in refusal(LEGACY, b"\x00")
    assert "required part.n not set" in refusal(LEGACY, b"\x00\x0a\x01a\x12\x00")
    validate = make_validator(source(LEGACY))
    validate(b"\x00\x0a\x01a")
    # proto2 promises no UTF-8, and keeps the values that its closed enums do not have.
    validate(b"\x00\x0a\x01\xff\x18\x09")


def test_a_schema_without_messages() -> None:
    assert "no message at" in refusal('syntax = "proto3"; enum E { Z = 0; }', b"\x00")


def test_references_as_text_and_as_descriptors() -> None:
    line = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
    line += "message Line { google.protobuf.Timestamp at = 1; }"
    text = 'syntax = "proto3"; import "schema.proto"; message Order { Line line = 1; }'
    as_text = source(text, ResolvedReference("schema.proto", line))
    as_descriptors = source(
        serialized(as_text), ResolvedReference("schema.proto", serialized(source(line)))
    )
    for validate in map(make_validator, (as_text, as_descriptors)):
        validate(b"\x00\x0a\x04\x0a\x02\x08\x05")
        with pytest.raises(InvalidContent, match=r"field google.protobuf.Timestamp.seconds"):
            validate(b"\x00\x0a\x05\x0a\x03\x0a\x01a")


def test_a_validator_can_be_sent_to_another_process() -> None:
    validate = pickle.loads(pickle.dumps(make_validator(source(SHOP))))
    validate(b"\x00\x0a\x01a")


def test_threads_share_a_validator() -> None:
    validate = make_validator(source(SHOP))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(500):
                validate(b"\x00\x0a\x01a")
                with pytest.raises(InvalidContent):
                    validate(b"\x00\x0a\x05a")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
