"""A process that ended is noticed by those that were connected to it, not by its lease."""

import asyncio

from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from tests.unit.broker.cluster.brokers import Brokers, OneBroker, with_brokers


class Listener:
    """Where a broker listens, until its process ends."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def connections(self) -> int:
        return len(self._writers)

    async def open(self) -> "Listener":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


async def start(brokers: Brokers, *node_ids: int) -> dict[int, tuple[OneBroker, Listener]]:
    started = {}
    for node_id in node_ids:
        listener = await Listener().open()
        broker = brokers.new(node_id)
        await broker.start(host="127.0.0.1", port=listener.port)
        started[node_id] = broker, listener
    for _, listener in started.values():
        while listener.connections < len(node_ids) - 1:
            await asyncio.sleep(0.005)
    return started


async def suspicions(brokers: Brokers) -> list[str]:
    return [kv.key for kv in (await brokers.store.get_prefix(keys.SUSPICIONS_PREFIX)).kvs]


@with_brokers
async def test_two_who_find_a_process_gone_end_its_registration(brokers: Brokers) -> None:
    started = await start(brokers, 1, 2, 3)
    dead, listener = started[1]
    # Its lease would go on: nothing else ends it here.
    await dead.cluster.stop()
    listener.close()
    two, three = started[2][0], started[3][0]
    await two.until(lambda image: NodeId(1) not in image.brokers)
    await three.until(lambda image: image.controller_id in (2, 3))
    while await suspicions(brokers):
        await asyncio.sleep(0.005)


@with_brokers
async def test_the_last_one_left_is_witness_enough(brokers: Brokers) -> None:
    started = await start(brokers, 1, 2)
    dead, listener = started[1]
    await dead.cluster.stop()
    listener.close()
    await started[2][0].until(lambda image: NodeId(1) not in image.brokers)


@with_brokers
async def test_one_witness_of_two_is_not_enough(brokers: Brokers) -> None:
    started = await start(brokers, 1, 2, 3)
    well, listener = started[1]
    before = well.cluster.membership.me
    assert before is not None
    # Broker 3 does not look: it was cut off from nobody.
    await started[3][0].cluster.witnesses.close()
    listener.close()
    while not await suspicions(brokers):
        await asyncio.sleep(0.005)
    assert await suspicions(brokers) == [keys.suspicion_key(*before, NodeId(2))]
    assert NodeId(1) in started[2][0].image.brokers
    await started[3][0].until(lambda image: image.suspects() == {1})
    # It listens again: the word is taken back.
    await listener.open()
    while await suspicions(brokers):
        await asyncio.sleep(0.005)
    assert well.cluster.membership.me == before


@with_brokers
async def test_an_address_that_was_never_reached_proves_nothing(brokers: Brokers) -> None:
    gone = await Listener().open()
    gone.close()
    one, two = brokers.new(1), brokers.new(2)
    await one.start(host="127.0.0.1", port=gone.port)
    await two.start(host="127.0.0.1", port=gone.port)
    for _ in range(50):
        await asyncio.sleep(0.005)
    assert await suspicions(brokers) == []
    assert set(one.image.brokers) == {1, 2}


@with_brokers
async def test_who_stops_by_itself_is_left_in_peace(brokers: Brokers) -> None:
    started = await start(brokers, 1, 2)
    one, two = started[1][0], started[2][0]
    await one.cluster.hand_over()
    await two.until(lambda image: image.nodes[NodeId(1)].record.is_draining)
    started[1][1].close()
    for _ in range(50):
        await asyncio.sleep(0.005)
    assert await suspicions(brokers) == []
    assert NodeId(1) in two.image.brokers
