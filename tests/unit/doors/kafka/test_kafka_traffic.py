"""What the Kafka door counts."""

import asyncio

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings() -> dict[str, str]:
    return {"max.connections": "1"}


async def test_requests_and_connections_are_counted(
    broker: Node, door: KafkaDoor, client: WireClient
) -> None:
    traffic = broker.traffic.kafka
    await client.call("api_versions")
    await client.call("api_versions")
    assert traffic.connections.open == 1

    refused = await WireClient.connect(*door.address)
    assert await refused.is_closed_by_broker()
    client.close()
    async with asyncio.timeout(60):
        await door.connections.wait_none_open()

    counts = traffic.connections
    assert (counts.open, counts.accepted, counts.refused) == (0, 1, 1)
    assert {name: sum(each.figures().counts) for name, each in traffic.latencies.items()} == {
        "ApiVersions": 2
    }
    assert not traffic.failures


async def test_a_wait_that_the_client_gives_up_is_no_failure(
    broker: Node, door: KafkaDoor, client: WireClient
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="quiet", partitions=1))
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    topics = [{"topic": "quiet", "partitions": [part]}]
    client.send("fetch", 12, max_wait=60_000, min_bytes=1, max_bytes=1_000, topics=topics)
    async with asyncio.timeout(60):
        while not broker.partition("quiet", 0).waiters:
            await asyncio.sleep(0)
    client.close()
    async with asyncio.timeout(60):
        await door.connections.wait_none_open()

    assert not broker.traffic.kafka.failures
