"""Topics that take only what fits a schema, on every door."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import boto3
import httpx
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.wrappers_pb2 import StringValue
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.produce.v12 import request
from kio.schema.produce.v12.response import BatchIndexAndErrorMessage as RecordError
from kio.schema.produce.v12.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.questions import broker_addresses, metadata_request
from tests.busy_machine import stretched
from tests.interop.servers import Server

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
    "additionalProperties": False,
}
AVRO_ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


@pytest.fixture
def registry(server: Server) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.http_url}) as client:
        yield client


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url) as client:
        yield client


def make_topic(http: httpx.Client, topic: str, **settings: str) -> None:
    config = {f"schema.validation.{name}": mode for name, mode in settings.items()}
    body = {"name": topic, "partitions": 1, "config": config}
    http.post("/topics", json=body).raise_for_status()


def produce(bootstrap: str, topic: str, *values: bytes | None, **settings: Any) -> list[str | None]:
    """The error of each message."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    errors: dict[int, str | None] = {}

    def delivered(number: int, error: KafkaError | None, _message: object) -> None:
        errors[number] = None if error is None else error.name()

    for number, value in enumerate(values):
        producer.produce(topic, value, on_delivery=partial(delivered, number))
    assert producer.flush(stretched(20)) == 0
    return [errors[number] for number in range(len(values))]


def stored_count(http: httpx.Client, topic: str) -> int:
    page = http.get(f"/topics/{topic}/partitions/0/messages", params={"offset": 0}).json()
    return len(page["messages"])


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def test_kafka_by_id(
    bootstrap: str, http: httpx.Client, registry: SchemaRegistryClient, topic: str
) -> None:
    make_topic(http, topic, value="id")
    own = registry.register_schema(f"{topic}-value", Schema(AVRO_ORDER, "AVRO"))
    other = registry.register_schema(f"{topic}-other", Schema('"string"', "AVRO"))
    assert produce(bootstrap, topic, framed(own, b"anything"), None) == [None, None]
    assert produce(bootstrap, topic, b"plain") == ["INVALID_RECORD"]
    assert produce(bootstrap, topic, framed(other, b"x")) == ["INVALID_RECORD"]
    assert produce(bootstrap, topic, framed(1_000_000, b"x")) == ["INVALID_RECORD"]
    assert stored_count(http, topic) == 2


def test_ids_are_of_the_context_that_the_topic_names(
    bootstrap: str,
    http: httpx.Client,
    server: Server,
    registry: SchemaRegistryClient,
    topic: str,
) -> None:
    make_topic(http, topic, value="content", **{"context.name": f".{topic}"})
    other = registry.register_schema(f"{topic}-value", Schema('"string"', "AVRO"))
    with SchemaRegistryClient({"url": f"{server.http_url}/contexts/.{topic}"}) as inside:
        place = SerializationContext(topic, MessageField.VALUE)
        good = AvroSerializer(inside, AVRO_ORDER)({"id": 7}, place)
        assert good == framed(1, b"\x0e")
        assert AvroDeserializer(inside)(good, place) == {"id": 7}
        # Readers who know no contexts name the subject, and get that one's schema.
        assert AvroDeserializer(registry)(good, place) == {"id": 7}
    assert produce(bootstrap, topic, good) == [None]
    assert produce(bootstrap, topic, framed(1, b"\x02a\x00")) == ["INVALID_RECORD"]
    assert produce(bootstrap, topic, framed(other + 1_000, b"\x02a")) == ["INVALID_RECORD"]
    assert stored_count(http, topic) == 1


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_kafka_by_content(
    bootstrap: str,
    http: httpx.Client,
    registry: SchemaRegistryClient,
    topic: str,
    compression: str,
) -> None:
    make_topic(http, topic, value="content")
    serializer = AvroSerializer(registry, AVRO_ORDER)
    good = serializer({"id": 7}, SerializationContext(topic, MessageField.VALUE))
    assert good is not None
    settings = {"compression.type": compression}
    assert produce(bootstrap, topic, *[good] * 20, **settings) == [None] * 20
    assert produce(bootstrap, topic, good + b"!", **settings) == ["INVALID_RECORD"]
    assert stored_count(http, topic) == 20


def test_protobuf_by_content(
    bootstrap: str, http: httpx.Client, registry: SchemaRegistryClient, topic: str
) -> None:
    make_topic(http, topic, value="content")
    serializer = ProtobufSerializer(StringValue, registry, {"use.deprecated.format": False})
    good = serializer(StringValue(value="héllo"), SerializationContext(topic, MessageField.VALUE))
    assert good is not None
    assert produce(bootstrap, topic, good, good[:6] + b"\x0a\x02\xff\xfe") == [
        "INVALID_RECORD",
        "INVALID_RECORD",
    ]
    assert produce(bootstrap, topic, good) == [None]


def test_the_records_at_fault_are_named(
    server: Server, http: httpx.Client, registry: SchemaRegistryClient, topic: str
) -> None:
    """Kafka clients learn which records of a batch are at fault (KIP-467)."""
    make_topic(http, topic, value="content")
    registry.register_schema(f"{topic}-value", Schema(json.dumps(ORDER), "JSON"))
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1_000_000)
    for offset, value in enumerate([b'{"id": 1}', b'{"id": "two"}', b"[]"]):
        builder.append(offset, 0, None, value, [])
    first, second = raw_produce(server.bootstrap_servers, topic, bytes(builder.build()))
    assert (first.batch_index, second.batch_index) == (1, 2)
    assert "/id" in (first.batch_index_error_message or "")
    assert "is not of type" in (second.batch_index_error_message or "")
    assert stored_count(http, topic) == 0


def raw_produce(bootstrap: str, topic: str, batch: bytes) -> tuple[RecordError, ...]:
    host, _, port = bootstrap.rpartition(":")
    partition = request.PartitionProduceData(index=i32(0), records=Records(batch))
    data = request.TopicProduceData(name=TopicName(topic), partition_data=(partition,))
    wanted = request.ProduceRequest(
        transactional_id=None,
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=5)),
        topic_data=(data,),
    )
    with BlockingConnection(host, int(port)) as connection:
        found = connection.call(metadata_request([topic]), MetadataResponse)
    [leader_id] = [p.leader_id for p in found.topics[0].partitions if p.partition_index == 0]
    leader = broker_addresses(found)[leader_id]
    with BlockingConnection(*leader) as connection:
        answer = connection.call(wanted, ProduceResponse)
    return answer.responses[0].partition_responses[0].record_errors


def test_http(http: httpx.Client, registry: SchemaRegistryClient, topic: str) -> None:
    make_topic(http, topic, value="content")
    path = f"/topics/{topic}/messages"
    missing = http.post(path, json={"value": {"id": 1}})
    assert missing.status_code == 422
    assert f"{topic}-value" in missing.json()["error"]["message"]

    registry.register_schema(f"{topic}-value", Schema(json.dumps(ORDER), "JSON"))
    assert http.post(path, json={"value": {"id": 1}}).status_code == 200
    refused = http.post(path, json={"value": {"id": "one"}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_record")
    assert "/id" in refused.json()["error"]["message"]
    many = [{"value": {"id": 2}, "partition": 0}, {"value": {"id": 3}}, {"value": {"name": "x"}}]
    refused = http.post(path, json={"messages": many})
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("messages[2].value: ")
    delayed = http.post(path, json={"value": 5, "delay": 60_000})
    assert delayed.status_code == 422
    assert stored_count(http, topic) == 1


def test_sqs(server: Server, registry: SchemaRegistryClient, topic: str) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=server.http_url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    url = sqs.create_queue(QueueName=topic)["QueueUrl"]
    registry.register_schema(f"{topic}-value", Schema(json.dumps(ORDER), "JSON"))
    with httpx.Client(base_url=server.http_url) as http:
        settings = {"config": {"schema.validation.value": "content"}}
        http.patch(f"/topics/{topic}", json=settings).raise_for_status()
    sqs.send_message(QueueUrl=url, MessageBody='{"id": 1}')
    with pytest.raises(ClientError) as refused:
        sqs.send_message(QueueUrl=url, MessageBody='{"id": "one"}')
    assert refused.value.response["Error"]["Code"].endswith("InvalidMessageContents")
    entries = [
        {"Id": "good", "MessageBody": '{"id": 2}'},
        {"Id": "bad", "MessageBody": "no JSON"},
        {"Id": "later", "MessageBody": '{"id": 3}', "DelaySeconds": 1},
    ]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["good", "later"]
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"]) == ("bad", True)


def test_keys_and_strategies(
    bootstrap: str, http: httpx.Client, registry: SchemaRegistryClient, topic: str
) -> None:
    make_topic(http, topic, value="id", strategy="record")
    anywhere = registry.register_schema(f"{topic}.Order", Schema(AVRO_ORDER, "AVRO"))
    assert produce(bootstrap, topic, framed(anywhere, b"x")) == [None]
    http.patch(
        f"/topics/{topic}", json={"config": {"schema.validation.strategy": "topic-record"}}
    ).raise_for_status()
    assert produce(bootstrap, topic, framed(anywhere, b"x")) == ["INVALID_RECORD"]
    registry.register_schema(f"{topic}-shop.Order", Schema(AVRO_ORDER, "AVRO"))
    assert produce(bootstrap, topic, framed(anywhere, b"x")) == [None]


def test_the_command_line_says_what_is_wrong(
    server: Server, http: httpx.Client, topic: str
) -> None:
    make_topic(http, topic, value="id")
    command = [sys.executable, "-m", "goqueue", "produce", topic, "plain"]
    environment = {**os.environ, "GOQUEUE_BOOTSTRAP": server.bootstrap_servers}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "schema.validation" in done.stderr


def test_a_check_without_an_end_holds_up_nobody(
    bootstrap: str, http: httpx.Client, registry: SchemaRegistryClient, topic: str
) -> None:
    """Two branches that refer to themselves: the work doubles with each of 90 levels."""
    make_topic(http, topic, value="content")
    branch = {"type": "array", "items": {"$ref": "#"}}
    schema = {"anyOf": [branch, {**branch, "minItems": 1}]}
    registry.register_schema(f"{topic}-value", Schema(json.dumps(schema), "JSON"))
    hostile = b"[" * 90 + b"5" + b"]" * 90
    with ThreadPoolExecutor() as threads:
        sent = [threads.submit(produce, bootstrap, topic, hostile) for _ in range(4)]
        slowest = 0.0
        while not all(one.done() for one in sent):
            started = time.monotonic()
            assert http.get("/healthz").status_code == 200
            slowest = max(slowest, time.monotonic() - started)
    assert [one.result() for one in sent] == [["INVALID_RECORD"]] * 4
    # Milliseconds on a machine with nothing else to do.
    assert slowest < 2
    assert produce(bootstrap, topic, b"[[],[[]]]") == [None]
