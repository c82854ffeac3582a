"""Batches of a transaction keep their order while the first waits for the coordinator."""

import asyncio

import pytest

from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.log import Produced
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import InitProducerId, ProducerIdAnswer
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ID = "shop"
# More turns of the loop than the coordinator takes to answer.
TURNS = 12


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def begun(service: BrokerService) -> ProducerIdAnswer:
    await service.topics.create(ANYONE, NewTopic(name="orders", partitions=1))
    return await service.producers.init(
        ANYONE, InitProducerId(transactional_id=ID, timeout_ms=60_000)
    )


def producing(
    service: BrokerService, producer: ProducerIdAnswer, sequence: int
) -> "asyncio.Task[Produced]":
    batch = encode_records(
        [NewRecord(value=b"%d" % sequence)],
        now_ms=1,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return asyncio.ensure_future(
        service.log.produce(
            ANYONE,
            "orders",
            0,
            batch,
            acks=-1,
            timeout_ms=5_000,
            transactional_id=ID,
            bumps_epoch=True,
        )
    )


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_later_batch_does_not_overtake(open_broker: OpenBroker, turns: int) -> None:
    async with open_broker() as broker:
        service = BrokerService(broker)
        producer = await begun(service)
        batches = []
        for sequence in range(4):
            batches.append(producing(service, producer, sequence))
            for _ in range(turns):
                await asyncio.sleep(0)
        stored = await asyncio.gather(*batches)
        assert [each.base_offset for each in stored] == [0, 1, 2, 3]
        assert broker.partition("orders", 0).producer_turns == {}


async def test_a_batch_that_is_given_up_lets_the_next_one_through(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = asyncio.Event()
    ask = Transactions._add_partitions

    async def later(self: Transactions, request: object) -> object:
        await may_answer.wait()
        return await ask(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Transactions, "_add_partitions", later)
    async with open_broker() as broker:
        service = BrokerService(broker)
        producer = await begun(service)
        given_up = producing(service, producer, 0)
        next_one = producing(service, producer, 0)
        await asyncio.sleep(0)
        # Others are not held up by a transaction that waits.
        plain = encode_records([NewRecord(value=b"plain")], now_ms=1)
        other = await service.log.produce(ANYONE, "orders", 0, plain, acks=-1, timeout_ms=5_000)
        assert other.base_offset == 0
        given_up.cancel()
        may_answer.set()
        assert (await next_one).base_offset == 1
        assert broker.partition("orders", 0).producer_turns == {}
