"""Who waits for the end of a transaction is told when it comes; nobody looks again and again."""

import asyncio

import pytest

from goqueue.broker.transactions.endings import Endings
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import (
    EndTransaction,
    InitProducerId,
    ProducerIdentity,
    WriteMarkers,
)
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_all_who_wait_are_told_and_nobody_else() -> None:
    endings = Endings()
    first, second, other = (
        asyncio.create_task(endings.next(name)) for name in ("shop", "shop", "other")
    )
    await asyncio.sleep(0)
    endings.ended("shop")
    await asyncio.gather(first, second)
    assert not other.done()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert endings._waiting == {}


async def test_settled_waits_for_the_markers_and_gives_up_in_time(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = asyncio.Event()
    write = Transactions._write_markers

    async def later(self: Transactions, index: int, effect: WriteMarkers) -> None:
        await may_write.wait()
        await write(self, index, effect)

    monkeypatch.setattr(Transactions, "_write_markers", later)
    async with open_broker() as broker:
        service = BrokerService(broker)
        await service.topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        init = InitProducerId(transactional_id="shop", timeout_ms=60_000)
        made = await service.producers.init(ANYONE, init)
        identity = ProducerIdentity("shop", made.producer_id, made.producer_epoch)
        await service.producers.begin(ANYONE, identity)
        records = [NewRecord(value=b"x")]
        await service.producers.publish(ANYONE, identity, "orders", records, [0], sequence=None)
        assert await broker.transactions.settled("shop", "never seen")
        end = EndTransaction(
            transactional_id="shop",
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            commit=True,
            bumps_epoch=True,
        )
        await service.transactions.end(ANYONE, end)

        now = asyncio.get_running_loop().time()
        assert not await broker.transactions.settled("shop", give_up_at=now)
        # A producer that initialises meanwhile gets its answer when the end has come.
        waiting = asyncio.create_task(service.producers.init(ANYONE, init))
        await asyncio.sleep(0)
        assert not waiting.done()
        may_write.set()
        assert (await waiting).producer_epoch > identity.producer_epoch
        assert await broker.transactions.settled("shop")
