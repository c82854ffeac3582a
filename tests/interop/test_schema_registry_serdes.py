"""Confluent's serialisers through a real broker and its registry: Avro, JSON Schema, Protobuf."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.interop.servers import Server

WAIT_SECONDS = 60


@pytest.fixture
def registry(server: Server) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.http_url}) as client:
        yield client


@pytest.fixture
def other_registry(server: Server) -> Iterator[SchemaRegistryClient]:
    """The reader's own client, which has nothing cached."""
    with SchemaRegistryClient({"url": f"{server.http_url}/schemas"}) as client:
        yield client


def carry(bootstrap: str, topic: str, payload: bytes | None) -> bytes:
    """Produce a payload and consume it again."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, payload)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_with_a_reference(
    registry: SchemaRegistryClient,
    other_registry: SchemaRegistryClient,
    bootstrap: str,
    topic: str,
) -> None:
    address = {
        "type": "record",
        "name": "Address",
        "fields": [{"name": "city", "type": "string"}],
    }
    registry.register_schema(f"{topic}-address", Schema(json.dumps(address), "AVRO"))
    user = {
        "type": "record",
        "name": "User",
        "fields": [{"name": "name", "type": "string"}, {"name": "home", "type": "Address"}],
    }
    reference = SchemaReference("Address", f"{topic}-address", 1)
    serializer = AvroSerializer(registry, Schema(json.dumps(user), "AVRO", [reference]))
    value = {"name": "Ada", "home": {"city": "London"}}
    payload = carry(bootstrap, topic, serializer(value, context(topic)))
    assert payload[0] == 0
    assert AvroDeserializer(other_registry)(payload, context(topic)) == value


def test_json_schema_with_a_reference(
    registry: SchemaRegistryClient,
    other_registry: SchemaRegistryClient,
    bootstrap: str,
    topic: str,
) -> None:
    address = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    registry.register_schema(f"{topic}-address", Schema(json.dumps(address), "JSON"))
    user = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "User",
        "type": "object",
        "properties": {"name": {"type": "string"}, "home": {"$ref": "address.json"}},
        "required": ["name"],
    }
    reference = SchemaReference("address.json", f"{topic}-address", 1)
    schema = Schema(json.dumps(user), "JSON", [reference])
    serializer = JSONSerializer(schema, registry)
    value = {"name": "Ada", "home": {"city": "London"}}
    payload = carry(bootstrap, topic, serializer(value, context(topic)))
    deserializer = JSONDeserializer(None, schema_registry_client=other_registry)
    assert deserializer(payload, context(topic)) == value


def protobuf_classes() -> dict[str, Any]:
    """What protoc would generate for two files, the second of which imports the first."""
    address = descriptor_pb2.FileDescriptorProto(
        name="shop/address.proto", package="shop", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    one = kinds.LABEL_OPTIONAL
    address.message_type.add(name="Address").field.add(
        name="city", number=1, type=kinds.TYPE_STRING, label=one
    )
    user = descriptor_pb2.FileDescriptorProto(
        name="shop/user.proto", package="shop", syntax="proto3", dependency=["shop/address.proto"]
    )
    message = user.message_type.add(name="User")
    message.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=one)
    message.field.add(
        name="home", number=2, type=kinds.TYPE_MESSAGE, label=one, type_name=".shop.Address"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(address)
    pool.Add(user)
    return message_factory.GetMessageClassesForFiles([address.name, user.name], pool)


def test_protobuf_with_an_import(
    registry: SchemaRegistryClient,
    other_registry: SchemaRegistryClient,
    bootstrap: str,
    topic: str,
) -> None:
    classes = protobuf_classes()
    user_class = classes["shop.User"]
    value = user_class(name="Ada", home=classes["shop.Address"](city="London"))
    serializer = ProtobufSerializer(user_class, registry, {"use.deprecated.format": False})
    payload = carry(bootstrap, topic, serializer(value, context(topic)))
    deserializer = ProtobufDeserializer(
        user_class, {"use.deprecated.format": False}, other_registry
    )
    assert deserializer(payload, context(topic)) == value
    stored = other_registry.get_latest_version(f"{topic}-value").schema
    assert stored.schema_type == "PROTOBUF"
    assert stored.references is not None
    assert [reference.name for reference in stored.references] == ["shop/address.proto"]


def test_latest_version_is_used_instead_of_registering(
    registry: SchemaRegistryClient, bootstrap: str, topic: str
) -> None:
    schema = json.dumps({"type": "record", "name": "U", "fields": [{"name": "a", "type": "int"}]})
    schema_id = registry.register_schema(f"{topic}-value", Schema(schema, "AVRO"))
    serializer = AvroSerializer(
        registry, conf={"auto.register.schemas": False, "use.latest.version": True}
    )
    payload = carry(bootstrap, topic, serializer({"a": 7}, context(topic)))
    assert int.from_bytes(payload[1:5], "big") == schema_id
