"""Thousands of connections that are lost at once do not make one turn of the loop long."""

import asyncio
from collections import Counter

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.connection import Connection
from goqueue.doors.lost_connections import ENDED_PER_TURN, LostConnections
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

CLIENTS = 3 * ENDED_PER_TURN


async def test_a_few_end_in_a_turn_and_all_in_order() -> None:
    lost = LostConnections()
    ended: list[int] = []
    for number in range(CLIENTS + 1):
        lost.add(lambda number=number: ended.append(number))  # type: ignore[misc]
    counts = [len(ended)]
    while len(ended) <= CLIENTS:
        before = len(ended)
        await asyncio.sleep(0)
        counts.append(len(ended) - before)
    assert max(counts) == ENDED_PER_TURN
    assert ended == list(range(CLIENTS + 1))


async def test_one_that_fails_stops_no_other() -> None:
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said["message"]))
    lost = LostConnections()
    ended: list[str] = []
    for _ in range(ENDED_PER_TURN):
        lost.add(lambda: None)
    lost.add(lambda: [][0])
    lost.add(lambda: ended.append("second"))
    assert ended == []
    await asyncio.sleep(0)
    assert ended == ["second"]
    assert len(told) == 1


async def test_fetches_of_clients_that_are_gone_end_in_many_turns(
    door: KafkaDoor, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them ended in the turn in which the connections were lost."""
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    clients = [await WireClient.connect(*door.address) for _ in range(CLIENTS)]
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    for client in clients:
        topics = [{"topic": "a", "partitions": [part]}]
        client.send("fetch", 11, max_wait=60_000, min_bytes=1, max_bytes=1, topics=topics)
    served = list(door.connections)
    while not all(connection.is_busy for connection in served):
        await asyncio.sleep(0)
    turns: Counter[int] = Counter()
    turn = 0
    end_lost = Connection._end_lost

    def ended(connection: Connection) -> None:
        turns[turn] += 1
        end_lost(connection)

    monkeypatch.setattr(Connection, "_end_lost", ended)
    for connection in served:
        connection.abort()
    while any(connection.is_busy for connection in served):
        turn += 1
        await asyncio.sleep(0)
    assert max(turns.values()) <= ENDED_PER_TURN
    assert turns.total() == CLIENTS
    assert not len(door.connections)
    for client in clients:
        client.close()
