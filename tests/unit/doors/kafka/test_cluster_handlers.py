"""What administrators ask of a cluster, asked of a node of one."""

import asyncio
from base64 import urlsafe_b64encode

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.model.coordinators import CoordinatorKind
from goqueue.model.errors import NotLeader
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_nobody_else_could_lead(client: WireClient, broker: Node, version: int) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    asked = [{"topic": "a", "partitions": [1, 7]}]
    words = {"election_type": 0} if version else {}
    answer = await client.call("elect_leaders", version, topic_partitions=asked, **words)
    [topic] = answer.replica_election_results
    assert [(p.partition_id, p.error_code) for p in topic.partition_result] == [
        (1, ErrorCode.election_not_needed),
        (7, ErrorCode.unknown_topic_or_partition),
    ]
    everywhere = await client.call("elect_leaders", version, topic_partitions=None, **words)
    assert everywhere.replica_election_results == ()


async def test_an_unknown_kind_of_election_is_refused(client: WireClient) -> None:
    asked = [{"topic": "a", "partitions": [0]}]
    answer = await client.call("elect_leaders", 2, election_type=9, topic_partitions=asked)
    assert answer.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_controller_stands_for_the_quorum(
    client: WireClient, broker: Node, version: int
) -> None:
    asked = [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]},
        {"topic_name": "other", "partitions": [{"partition_index": 0}]},
    ]
    answer = await client.call("describe_quorum", version, topics=asked)
    metadata, other = (topic.partitions[0] for topic in answer.topics)
    assert metadata.error_code is ErrorCode.none
    assert metadata.leader_id == broker.node_id
    assert metadata.high_watermark == broker.image.revision
    assert [voter.replica_id for voter in metadata.current_voters] == [broker.node_id]
    assert other.error_code is ErrorCode.unknown_topic_or_partition
    if version >= 2:
        [node] = answer.nodes
        [listener] = node.listeners
        assert listener.port == broker.image.brokers[broker.node_id].kafka_port


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_features_have_the_level_of_the_program(client: WireClient, version: int) -> None:
    async def update(feature: str, level: int) -> ErrorCode:
        asked = [{"feature": feature, "max_version_level": level}]
        answer = await client.call("update_features", version, feature_updates=asked)
        code: ErrorCode = answer.error_code
        if version < 2:
            assert answer.results[0].error_code is code
        return code

    assert await update("transaction.version", 2) is ErrorCode.none
    assert await update("transaction.version", 1) is ErrorCode.invalid_update_version
    assert await update("metadata.version", 30) is ErrorCode.invalid_update_version


async def test_a_node_that_never_was_cannot_be_forgotten(client: WireClient) -> None:
    answer = await client.call("unregister_broker", 0, broker_id=7)
    assert answer.error_code is ErrorCode.broker_id_not_registered


async def test_who_asks_the_wrong_broker_is_told_the_right_one(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))

    def refuse(topic: str, index: int) -> Partition:
        raise NotLeader(f"{topic}-{index} is led elsewhere")

    monkeypatch.setattr(broker.led, "find", refuse)
    me = broker.node_id
    records = bytes(encode_records([NewRecord(value=b"x")], now_ms=1_000))
    produced = await client.call(
        "produce",
        12,
        transactional_id=None,
        acks=-1,
        timeout=1_000,
        topic_data=[{"name": "a", "partition_data": [{"index": 0, "records": records}]}],
    )
    fetched = await client.call(
        "fetch",
        16,
        max_wait=0,
        min_bytes=1,
        session_id=0,
        session_epoch=-1,
        isolation_level=0,
        forgotten_topics_data=[],
        topics=[
            {
                "topic_id": broker.topic("a").id,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}],
            }
        ],
    )
    for answer, part in (
        (produced, produced.responses[0].partition_responses[0]),
        (fetched, fetched.responses[0].partitions[0]),
    ):
        assert part.error_code is ErrorCode.not_leader_or_follower
        assert part.current_leader.leader_id == me
        [node] = answer.node_endpoints
        assert (node.node_id, node.port) == (me, broker.image.brokers[me].kafka_port)


async def test_a_share_groups_state_is_where_its_partition_is_led(broker: Node) -> None:
    service = BrokerService(broker)
    await service.topics.create(ANYONE, NewTopic(name="a", partitions=1))
    encoded = urlsafe_b64encode(broker.topic("a").id.bytes).decode().rstrip("=")
    find = service.administration.coordinator
    found = await find(ANYONE, CoordinatorKind.SHARE, f"g:{encoded}:0")
    assert found == broker.image.brokers.get(broker.node_id)
    assert await find(ANYONE, CoordinatorKind.SHARE, f"g:{encoded}:5") == found


async def test_clients_wait_for_the_first_broker_at_a_start(broker: Node) -> None:
    await broker._store.delete(keys.broker_key(broker.node_id))
    async with asyncio.timeout(stretched(10)):
        while broker.image.brokers:
            await asyncio.sleep(0.01)
    asked = asyncio.create_task(BrokerService(broker).administration.cluster_at_work())
    await asyncio.sleep(0.05)
    assert not asked.done()
    await broker.announce("h", 1, 2)
    async with asyncio.timeout(stretched(10)):
        assert len((await asked).brokers) == 1
