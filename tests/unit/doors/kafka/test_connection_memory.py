"""What clients hold of the broker's memory by sending half, or by not reading."""

import asyncio
import struct

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.connection import Connection
from goqueue.doors.kafka.frame_reader import SCRATCH_BYTES
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.doors.kafka.scripted_peer import FETCH, FakeTransport, Peer, frame, produce
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

BUDGET_BYTES = 8 * 1024 * 1024
WAIT_SECONDS = 30


@pytest.fixture
def settings() -> dict[str, str]:
    return {
        "queued.max.request.bytes": str(BUDGET_BYTES),
        "connections.max.stalled.ms": "1000",
        "fetch.max.wait.ms": "100",
    }


async def test_half_a_frame_is_given_up_for_the_others() -> None:
    peer = Peer(queued_max_request_bytes="1048576")
    _, honest = peer.connect()
    peer.send(struct.pack(">ihh", 50_000_000, 0, 9) + bytes(60_000))
    async with asyncio.timeout(WAIT_SECONDS):
        while not peer.transport.is_closed:
            await asyncio.sleep(0.01)
    assert peer.memory.held_bytes == 0
    assert not honest.is_closed


async def test_a_large_frame_waits_while_memory_is_short_and_then_goes_on() -> None:
    peer = Peer(queued_max_request_bytes="1048576")
    peer.memory.take(800_000)
    connection, transport = peer.connect()
    request = struct.pack(">ihhih", 200_000, 0, 9, 1, -1) + b"\x00" + bytes(199_989)
    for start in range(0, 100_000, 50_000):
        part = request[start : start + 50_000]
        connection.get_buffer(-1)[: len(part)] = part
        connection.buffer_updated(len(part))
    assert not transport.is_reading
    peer.memory.give_back(800_000)
    assert transport.is_reading
    # Small requests of others went on all the time.
    peer.send(produce(1))
    await peer.settle()
    assert peer.script.started == [1]


async def test_many_halves_of_frames_grow_only_while_there_is_room() -> None:
    peer = Peer(queued_max_request_bytes=str(BUDGET_BYTES))
    beginning = struct.pack(">ihh", 50_000_000, 0, 9)
    opened = [peer.connect() for _ in range(100)]

    def send(connection: Connection, transport: FakeTransport, size: int) -> None:
        left = beginning + bytes(size)
        while left and transport.is_reading and not transport.is_closed:
            room = connection.get_buffer(-1)
            part, left = left[: len(room)], left[len(room) :]
            room[: len(part)] = part
            connection.buffer_updated(len(part))

    for connection, transport in opened:
        send(connection, transport, 2_000_000)
    # Each has what its first bytes take, or the room that it got while there was some.
    most_bytes = BUDGET_BYTES + len(opened) * SCRATCH_BYTES
    assert peer.memory.held_bytes < most_bytes
    # When there is memory again, those who waited do not all get it.
    for connection, transport in opened[:20]:
        connection.connection_lost(None)
        for going_on in opened[20:]:
            send(*going_on, 2_000_000)
        assert peer.memory.held_bytes < most_bytes
        assert not transport.is_closed


async def test_who_does_not_read_is_cut_off_and_others_are_served(
    door: KafkaDoor, broker: Node
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    for _ in range(20):
        await publish(broker, "a", [NewRecord(value=b"x" * 1_000_000)])
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50_000_000}
    topics = [{"topic": "a", "partitions": [part]}]
    slow = [await WireClient.connect(*door.address) for _ in range(10)]
    quick = await WireClient.connect(*door.address)
    for client in slow:
        client.reader._limit = 1  # type: ignore[attr-defined]
        for _ in range(40):
            client.send("fetch", 12, max_bytes=50_000_000, topics=topics)
    most_bytes = 0
    async with asyncio.timeout(WAIT_SECONDS):
        while len(door.connections) > 1:
            await quick.call("metadata", 12, topics=[])
            unsent = sum(connection.unsent_bytes for connection in door.connections)
            most_bytes = max(most_bytes, unsent)
            await asyncio.sleep(0)
    assert most_bytes < 4 * BUDGET_BYTES
    answer = await quick.call("fetch", 12, max_bytes=50_000_000, topics=topics)
    assert answer.responses[0].partitions[0].records


async def test_a_fetch_does_not_wait_for_days(door: KafkaDoor, broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    client = await WireClient.connect(*door.address)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    topics = [{"topic": "a", "partitions": [part]}]
    async with asyncio.timeout(WAIT_SECONDS):
        await client.call(
            "fetch", 12, max_wait=2**31 - 1, min_bytes=1, max_bytes=1_000, topics=topics
        )


async def test_one_address_does_not_take_every_connection() -> None:
    peer = Peer(max_connections_per_ip="2")
    second, accepted = peer.connect()
    _, refused = peer.connect()
    assert refused.is_closed
    assert not accepted.is_closed
    second.connection_lost(None)
    _, accepted = peer.connect()
    assert not accepted.is_closed


async def test_a_request_whose_client_leaves_before_it_begins_gives_its_bytes_back() -> None:
    peer = Peer()
    peer.send(frame(FETCH, 4, 1, struct.pack(">iiiibi", -1, 500, 1, 1, 0, 0)))
    await asyncio.sleep(0)
    assert peer.connection.is_busy
    assert peer.script.started == []
    peer.connection.connection_lost(None)
    await peer.settle()
    assert peer.script.started == []
    assert peer.memory.held_bytes == 0
    assert not peer.connection.is_busy
