"""State that is kept with the topic it belongs to."""

import asyncio
from pathlib import Path

import pytest

from goqueue.broker.own_grants import own_state
from goqueue.model.companions import DELAYED, KINDS, QUEUE_STATE, companion_of, kind_and_owner
from goqueue.model.errors import (
    PolicyViolation,
    UnknownDelayedMessage,
    UnknownQueue,
    UnknownTopicId,
)
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.settling import Settlement
from goqueue.model.topics import NewTopic, is_internal
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker import delay_bench
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_queues import acknowledge, make_topic, publish, receive, values


def test_names_of_companions_are_internal_and_say_to_whom_they_belong(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            topic_id = broker.topic("t").id
            for kind in KINDS:
                name = companion_of(kind, topic_id)
                assert kind_and_owner(name) == (kind, topic_id)
                assert is_internal(name)
                with pytest.raises(PolicyViolation):
                    await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name))
            for other in ("t", QUEUE_STATE, f"{QUEUE_STATE}.t", f"x{name}", f"{name}0"):
                assert kind_and_owner(other) is None

    asyncio.run(scenario())


def test_a_companion_grows_and_goes_with_its_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            name = companion_of(QUEUE_STATE, broker.topic("t").id)

            async def ensure() -> int:
                owner = broker.topic("t")
                await broker.topics.ensure_companion(own_state(name), owner, config={})
                return len(broker.topic(name).partitions)

            assert [await ensure(), await ensure()] == [2, 2]
            topics = BrokerService(broker).topics
            await topics.create_partitions(ANYONE, "t", 4)
            assert await ensure() == 4
            await topics.delete(ANYONE, "t")
            assert not broker.image.topics.keys() & {"t", name}

    asyncio.run(scenario())


def test_queues_are_kept_with_their_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            await publish(broker, b"one", b"two", b"three")
            first, *others = await receive(broker)
            assert len(others) == 2
            await acknowledge(broker, first, AckAction.ACCEPT)
            kept = companion_of(QUEUE_STATE, broker.topic("t").id)
            assert QUEUE_STATE not in broker.image.topics
            partitions = [broker.partition(kept, index) for index in range(2)]
            assert all(partition.log_end_offset for partition in partitions)
        async with open_broker() as broker:
            assert sorted(filter(None, values(await receive(broker)))) == sorted(
                delivery.record.value or b"" for delivery in others
            )
            await BrokerService(broker).topics.delete(ANYONE, "t")
            assert broker.queues.registry.list_queues() == []

    asyncio.run(scenario())


def test_who_only_looks_makes_no_companion(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            service = BrokerService(broker)
            described = await service.queues.describe(ANYONE, "g", "t")
            assert [each.error for each in described] == [QueueError.UNKNOWN_QUEUE] * 2
            receipt = Receipt("t", 0, 0, 1, 1)
            wanted = [Settlement(receipt, AckAction.ACCEPT, None)]
            [refused] = await service.queues.settle(ANYONE, "g", wanted)
            assert isinstance(refused, UnknownQueue)
            assert (await service.delays.list_pending(ANYONE, "t")).messages == []
            with pytest.raises(UnknownDelayedMessage):
                await service.delays.cancel(ANYONE, "t", "5-0-0")
            assert set(broker.image.topics) == {"t"}

    asyncio.run(scenario())


def test_a_companion_of_a_topic_that_is_gone_is_not_made(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            owner = broker.topic("t")
            name = companion_of(QUEUE_STATE, owner.id)
            await BrokerService(broker).topics.delete(ANYONE, "t")
            with pytest.raises(UnknownTopicId):
                await broker.topics.ensure_companion(own_state(name), owner, config={})
            # Of the same name, but another one.
            await make_topic(broker)
            with pytest.raises(UnknownTopicId):
                await broker.topics.ensure_companion(own_state(name), owner, config={})
            assert set(broker.image.topics) == {"t"}

    asyncio.run(scenario())


def test_companions_take_no_room_of_other_topics(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(max__partitions__per__broker="2") as broker:
            await make_topic(broker, partitions=1)
            await publish(broker, b"one")
            assert values(await receive(broker)) == [b"one"]
            topics = BrokerService(broker).topics
            await topics.create(ANYONE, NewTopic(name="u", partitions=1))
            with pytest.raises(PolicyViolation, match="2 there are"):
                await topics.create(ANYONE, NewTopic(name="v", partitions=1))

    asyncio.run(scenario())


def test_delayed_messages_wait_with_the_topic_they_go_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = delay_bench.Clock()
        topic = delay_bench.TOPIC
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker, partitions=2)
            due = clock.now_ms + 1_000
            for index in range(2):
                record = delay_bench.message(b"%d" % index)
                await delay_bench.schedule(broker, topic, index, [(record, due)])
            cancelled = delay_bench.message(b"never")
            [message] = await delay_bench.schedule(broker, topic, 1, [(cancelled, due)])
            assert message.shard == 1
            assert len((await delay_bench.list_pending(broker, topic)).messages) == 3
            await delay_bench.cancel(broker, topic, str(message))
            assert DELAYED not in broker.image.topics
            kept = companion_of(DELAYED, broker.topic(topic).id)
            assert [p.index for p in broker.topic(kept).partitions] == [0, 1]
        async with delay_bench.running(tmp_path, clock) as broker:
            assert len((await delay_bench.list_pending(broker, topic)).messages) == 2
            await delay_bench.advance(broker, clock, 2_000)
            for index in range(2):
                await delay_bench.until_end(broker, 1, index)
                assert await delay_bench.values(broker, index) == [b"%d" % index]
            await BrokerService(broker).topics.delete(ANYONE, topic)
            assert list(broker.delays.shards.running()) == []

    asyncio.run(scenario())
