"""The listening door: limits over all connections, idle ones, and its end."""

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.connection import WRITE_HIGH_WATER_BYTES
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


class TestFewConnections:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"max.connections": "2"}

    async def test_one_too_many_is_closed_and_its_place_is_free_later(
        self, door: KafkaDoor
    ) -> None:
        clients = [await WireClient.connect(*door.address) for _ in range(2)]
        for client in clients:
            await client.call("metadata")
        refused = await WireClient.connect(*door.address)
        assert await refused.is_closed_by_broker()
        clients[0].close()
        while len(door.connections) == 2:
            await clients[1].call("metadata")
        admitted = await WireClient.connect(*door.address)
        await admitted.call("metadata")


class TestShortIdleTime:
    @pytest.fixture
    def idle_ms(self) -> int:
        """Longer than this process waits for its turn."""
        return int(stretched(3.0) * 1000)

    @pytest.fixture
    def settings(self, idle_ms: int) -> dict[str, str]:
        return {"connections.max.idle.ms": str(idle_ms)}

    async def test_a_silent_connection_is_closed_and_a_waiting_one_not(
        self, door: KafkaDoor, broker: Node, idle_ms: int
    ) -> None:
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
        waiting, silent = [await WireClient.connect(*door.address) for _ in range(2)]
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        expected = waiting.send(
            "fetch",
            12,
            max_wait=idle_ms + idle_ms // 2,
            min_bytes=1,
            topics=[{"topic": "a", "partitions": [part]}],
        )
        await silent.call("metadata")
        assert await silent.is_closed_by_broker()
        answer = await waiting.receive(*expected)
        assert answer.responses[0].partitions[0].records == b""


async def test_a_client_that_does_not_read_holds_up_itself_only(
    door: KafkaDoor, broker: Node
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    for _ in range(12):
        await publish(broker, "a", [NewRecord(value=b"x" * 1_000_000)])
    slow, quick = [await WireClient.connect(*door.address) for _ in range(2)]
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50_000_000}
    topics = [{"topic": "a", "partitions": [part]}]
    expected = [slow.send("fetch", 12, max_bytes=50_000_000, topics=topics) for _ in range(20)]

    def unsent_bytes() -> int:
        return sum(connection.unsent_bytes for connection in door.connections)

    while unsent_bytes() < WRITE_HIGH_WATER_BYTES:
        await quick.call("metadata")
    for _ in range(10):
        await quick.call("metadata")
    assert unsent_bytes() < 13_000_000, "one answer at a time waits to be sent"
    for request in expected:
        answer = await slow.receive(*request)
        assert len(answer.responses[0].partitions[0].records) > 12_000_000


async def test_stopping_twice_and_before_starting_is_fine(broker: Node) -> None:
    door = KafkaDoor(BrokerService(broker), broker.config)
    await door.stop()
    await door.start()
    await door.stop()
    await door.stop()


async def test_nobody_is_let_in_after_the_end(door: KafkaDoor) -> None:
    address = door.address
    await door.stop()
    with pytest.raises(ConnectionRefusedError):
        await WireClient.connect(*address)
