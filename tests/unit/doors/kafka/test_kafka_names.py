"""What Kafka's tools send and ask for, where it makes no difference here."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.handlers.log.produce import NAMED_RECORDS_MAX
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

TOPIC, BROKER = 2, 4

WITHOUT_EFFECT = {
    "unclean.leader.election.enable": "true",
    "flush.messages": "1",
    "segment.jitter.ms": "1000",
    "preallocate": "true",
    "compression.gzip.level": "6",
    "compression.lz4.level": "12",
    "compression.zstd.level": "10",
    "remote.storage.enable": "false",
    "local.retention.ms": "1000",
    "local.retention.bytes": "1000",
}


async def created(client: WireClient, configs: dict[str, str]) -> Any:
    topic = {
        "name": "orders",
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
    return (await client.call("create_topics", topics=[topic])).topics[0]


async def described(client: WireClient, kind: int, name: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    answer = await client.call("describe_configs", 4, resources=[resource])
    return {entry.name: entry for entry in answer.results[0].configs}


async def test_topic_settings_without_effect_are_taken_and_described(client: WireClient) -> None:
    answer = await created(client, WITHOUT_EFFECT)
    assert answer.error_code is ErrorCode.none, answer.error_message
    found = await described(client, TOPIC, "orders")
    assert {name: found[name].value for name in WITHOUT_EFFECT} == WITHOUT_EFFECT


async def test_what_is_not_there_cannot_be_switched_on(client: WireClient) -> None:
    answer = await created(client, {"remote.storage.enable": "true"})
    assert answer.error_code is ErrorCode.invalid_config
    assert answer.error_message == "remote.storage.enable: there is no remote storage"


async def test_broker_settings_have_kafkas_names_too(client: WireClient, door: KafkaDoor) -> None:
    found = await described(client, BROKER, "0")
    host, port = door.address
    assert found["advertised.listeners"].value == f"PLAINTEXT://{host}:{port}"
    assert found["log.retention.ms"].value == found["topic.retention.ms"].value == "604800000"
    assert found["log.dirs"].value == found["data.dir"].value
    assert not found["message.max.bytes"].read_only
    assert found["log.dirs"].read_only
    assert len(found) == len({name.lower() for name in found})


async def test_every_bad_record_is_named(client: WireClient, broker: Node) -> None:
    topic = NewTopic(name="keyed", partitions=1, config={"cleanup.policy": "compact"})
    await BrokerService(broker).topics.create(ANYONE, topic)

    async def refused(records: list[NewRecord]) -> Any:
        part = {"index": 0, "records": encode_records(records, now_ms=1)}
        data = [{"name": "keyed", "partition_data": [part]}]
        answer = await client.call("produce", 9, acks=-1, topic_data=data)
        return answer.responses[0].partition_responses[0]

    keyless, keyed = NewRecord(value=b"x"), NewRecord(key=b"k", value=b"x")
    answer = await refused([keyless, keyed, keyless, keyless])
    assert answer.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [0, 2, 3]
    assert all("without a key" in e.batch_index_error_message for e in answer.record_errors)
    answer = await refused([keyless] * (NAMED_RECORDS_MAX + 1))
    assert len(answer.record_errors) == NAMED_RECORDS_MAX
