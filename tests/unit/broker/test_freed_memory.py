"""What is over goes from memory at once: nothing of it waits for the garbage collector."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.errors import PartitionOffline, UnknownTopic
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def used_partitions(broker: Node) -> list[weakref.ref[HostedPartition]]:
    """Written to, read and waited for."""
    service = BrokerService(broker)
    await service.topics.create(ANYONE, NewTopic(name="t", partitions=3))
    for index in range(3):
        batch = encode_records([NewRecord(value=b"x")], now_ms=1)
        await service.log.produce(ANYONE, "t", index, batch, acks=-1, timeout_ms=30_000)
    await service.log.fetch(
        ANYONE,
        [FetchPart("t", 0, 1, 1_000)],
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1_000,
        isolation=Isolation.READ_COMMITTED,
    )
    found = [broker.hosted.get("t", index) for index in range(3)]
    return [weakref.ref(each) for each in found if each is not None]


def test_partitions_of_a_deleted_topic_are_gone(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            partitions = await used_partitions(broker)
            await BrokerService(broker).topics.delete(ANYONE, "t")
            async with asyncio.timeout(stretched(30)):
                while any(each() is not None for each in partitions):
                    await asyncio.sleep(0.01)
            with pytest.raises(UnknownTopic):
                broker.partition("t", 0)

    asyncio.run(scenario())


def test_an_error_that_is_raised_again_and_again_does_not_grow(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await used_partitions(broker)
            partition = broker.partition("t", 0)
            error = partition.hosted.give_up("tried out")
            for _ in range(100):
                with pytest.raises(PartitionOffline):
                    partition.check_online()
            places, place = 0, error.__traceback__
            while place is not None:
                places, place = places + 1, place.tb_next
            assert places < 5

    asyncio.run(scenario())
