"""What clients can make without end is bounded: partitions, groups, ids, queues."""

import pytest

from goqueue.broker.topics.growth import CreationPace
from goqueue.model.errors import PolicyViolation, TooManyGroups, UnknownTopic
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.names import topic_partition
from goqueue.model.queues.receiving import Receive
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import AddPartitions, EndTransaction, InitProducerId
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_topics_are_made_at_a_pace() -> None:
    now = 0.0
    pace = CreationPace(60, lambda: now)
    for _ in range(60):
        pace.take("orders")
    with pytest.raises(UnknownTopic, match=r"auto\.create\.topics\.max\.per\.minute is 60"):
        pace.take("orders")
    now = 2.0
    pace.take("orders")
    pace.take("orders")
    with pytest.raises(UnknownTopic):
        pace.take("orders")


async def test_topics_that_are_asked_for_are_made_up_to_the_limit(open_broker: OpenBroker) -> None:
    async with open_broker(auto__create__topics__max__per__minute="2") as broker:
        topics = BrokerService(broker).topics
        for name in ("a", "b"):
            await topics.ensure(ANYONE, name)
        with pytest.raises(UnknownTopic):
            await topics.ensure(ANYONE, "c")
        assert sorted(broker.image.topics) == ["a", "b"]
        # Those that are there, and those that are made on purpose, are not held up.
        await topics.ensure(ANYONE, "a")
        await topics.create(ANYONE, NewTopic(name="c"))


async def test_a_broker_has_so_many_partitions(open_broker: OpenBroker) -> None:
    async with open_broker(max__partitions__per__broker="5") as broker:
        topics = BrokerService(broker).topics
        await topics.create(ANYONE, NewTopic(name="a", partitions=2))
        with pytest.raises(PolicyViolation, match=r"max\.partitions\.per\.broker \(5\)"):
            await topics.create(ANYONE, NewTopic(name="b", partitions=4))
        with pytest.raises(PolicyViolation, match=r"max\.partitions\.per\.broker"):
            await topics.create_partitions(ANYONE, "a", 6)
        await topics.create_partitions(ANYONE, "a", 4)
        # The broker's own topics are not held up.
        await broker.groups.state.shard_for("g")


async def test_a_broker_has_so_many_groups(open_broker: OpenBroker) -> None:
    async with open_broker(max__groups="3") as broker:
        service = BrokerService(broker)
        await service.topics.create(ANYONE, NewTopic(name="a", partitions=1))

        async def commit(group: str) -> None:
            offset = OffsetToCommit(topic="a", partition=0, offset=1)
            await service.groups.commit(ANYONE, OffsetCommit(group_id=group, offsets=(offset,)))

        for number in range(3):
            await commit(f"g{number}")
        with pytest.raises(TooManyGroups, match=r"max\.groups is 3"):
            await commit("one more")
        await commit("g1")
        await service.groups.delete(ANYONE, "g2")
        await commit("one more")


async def test_a_broker_has_so_many_transactional_ids(open_broker: OpenBroker) -> None:
    async with open_broker(max__transactional__ids="2") as broker:
        producers = BrokerService(broker).producers
        for name in ("a", "b", "a"):
            await producers.init(ANYONE, InitProducerId(transactional_id=name, timeout_ms=1_000))
        with pytest.raises(PolicyViolation, match=r"max\.transactional\.ids is 2"):
            await producers.init(ANYONE, InitProducerId(transactional_id="c", timeout_ms=1_000))


async def test_transactional_ids_are_so_long(open_broker: OpenBroker) -> None:
    async with open_broker(transactional__id__max__bytes="64") as broker:
        producers = BrokerService(broker).producers
        await producers.init(ANYONE, InitProducerId(transactional_id="a" * 64, timeout_ms=1_000))
        with pytest.raises(PolicyViolation, match=r"transactional\.id\.max\.bytes is 64"):
            await producers.init(ANYONE, InitProducerId(transactional_id="é" * 33, timeout_ms=1))


async def test_open_transactions_have_so_many_partitions(open_broker: OpenBroker) -> None:
    """Small ones are taken always, and what ends makes room."""
    async with open_broker(max__transaction__partitions="100") as broker:
        service = BrokerService(broker)
        await service.topics.create(ANYONE, NewTopic(name="t", partitions=60))

        async def begin(name: str, partitions: int) -> EndTransaction:
            wanted = InitProducerId(transactional_id=name, timeout_ms=60_000)
            producer = await service.producers.init(ANYONE, wanted)
            places = frozenset(topic_partition("t", number) for number in range(partitions))
            request = AddPartitions(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                partitions=places,
            )
            answer = await service.transactions.add_partitions(ANYONE, request)
            assert set(answer.errors.values()) == {TransactionError.NONE}
            return EndTransaction(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                commit=False,
                bumps_epoch=False,
            )

        first = await begin("a", 60)
        with pytest.raises(PolicyViolation, match=r"max\.transaction\.partitions is 100"):
            await begin("b", 41)
        for number in range(6):
            await begin(f"small-{number}", 10)
        await service.transactions.end(ANYONE, first)
        assert await broker.transactions.settled("a")
        await begin("b", 40)


async def test_a_broker_has_so_many_queues(open_broker: OpenBroker) -> None:
    async with open_broker(max__queues="4") as broker:
        service = BrokerService(broker)
        await service.topics.create(ANYONE, NewTopic(name="jobs", partitions=2))
        wanted = Receive(max_messages=1, member="c", start="earliest")
        for group in ("a", "b", "a"):
            assert await service.queues.receive(ANYONE, group, "jobs", wanted) == []
        with pytest.raises(PolicyViolation, match=r"max\.queues is 4"):
            await service.queues.receive(ANYONE, "c", "jobs", wanted)
