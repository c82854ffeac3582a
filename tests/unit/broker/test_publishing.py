"""Publishing single records: each is stored, kept until it is due, or refused by itself."""

from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import (
    ClusterAccessDenied,
    InvalidRequest,
    PartitionOffline,
    PolicyViolation,
    TopicAccessDenied,
    UnfitRecord,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.log import Published
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import NewSchema
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.publishing import PublishingService
from tests.callers import ANYONE
from tests.rules import Granted, cluster, topic
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.delay_bench import START_MS, Clock, open_shards, running, stats, values

pytestmark = pytest.mark.anyio

SCHEMA = '{"type": "object", "properties": {"id": {"type": "string"}}}'
FIT = NewRecord(value=b'{"id": "a"}')
UNFIT = NewRecord(value=b'{"id": 1}')


async def with_schema(node: Node) -> PublishingService:
    service = BrokerService(node)
    config = {"schema.validation.value": "content"}
    await BrokerService(node).topics.create(
        ANYONE, NewTopic(name="orders", partitions=1, config=config)
    )
    await service.schemas.register(ANYONE, "orders-value", NewSchema(SchemaType.JSON, SCHEMA))
    return service.publishing


async def test_outcomes_come_in_the_order_given(tmp_path: Path) -> None:
    async with running(tmp_path, Clock()) as node:
        publishing = await with_schema(node)
        due = [None, None, START_MS + 1_000, START_MS - 1_000, START_MS + 500]
        records = [FIT, UNFIT, FIT, FIT, UNFIT]
        outcomes = await publishing.publish(ANYONE, "orders", records, due)
        now, refused, later, past, refused_too = outcomes
        assert now == Published(0, 0, START_MS)
        assert past == Published(0, 1, START_MS)
        assert isinstance(later, ScheduledMessage)
        assert (later.partition, later.id.due_ms) == (0, START_MS + 1_000)
        assert isinstance(refused, UnfitRecord)
        assert isinstance(refused_too, UnfitRecord)
        assert await values(node, topic="orders") == [FIT.value] * 2
        assert stats(node).pending == 1


async def test_as_one_a_record_that_does_not_fit_refuses_all(tmp_path: Path) -> None:
    async with running(tmp_path, Clock()) as node:
        publishing = await with_schema(node)
        due = [None, START_MS + 500, None]
        with pytest.raises(UnfitRecord, match="does not fit schema 1") as refused:
            await publishing.publish(ANYONE, "orders", [FIT, FIT, UNFIT], due, as_one=True)
        assert refused.value.record_index == 2
        assert await values(node, topic="orders") == []
        assert stats(node).pending == 0


async def test_a_partition_that_fails_does_not_hide_what_the_others_stored(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        await BrokerService(node).topics.create(ANYONE, NewTopic(name="orders", partitions=2))
        publishing = BrokerService(node).publishing
        node.partition("orders", 1).hosted.go_offline(PartitionOffline("disk full"))
        outcomes = await publishing.publish(
            ANYONE, "orders", [NewRecord(value=b"v")] * 4, partitions=[0, 1, 0, 1]
        )
        assert [type(outcome) for outcome in outcomes] == [
            Published,
            PartitionOffline,
            Published,
            PartitionOffline,
        ]


async def test_what_cannot_be_published_at_all_is_refused_whole(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await BrokerService(node).topics.create(ANYONE, NewTopic(name="orders", partitions=2))
        publishing = BrokerService(node).publishing
        records = [NewRecord(value=b"v")] * 2
        with pytest.raises(UnknownPartition, match="partition 2 is not one of") as refused:
            await publishing.publish(ANYONE, "orders", records, partitions=[None, 2])
        assert refused.value.record_index == 1
        with pytest.raises(InvalidRequest):
            await publishing.publish(ANYONE, "orders", [])
        with pytest.raises(UnknownTopic):
            await publishing.publish(ANYONE, "nothing", records)
        await open_shards(node, "orders")
        kept_in = companion_of(DELAYED, node.topic("orders").id)
        with pytest.raises(PolicyViolation):
            await publishing.publish(ANYONE, kept_in, records)


async def test_a_topic_is_made_for_those_who_may(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        records = [NewRecord(value=b"v")]
        write, create = topic("new", Verb.WRITE), topic("new", Verb.CREATE)
        writer = BrokerService(node, Granted(write)).publishing
        with pytest.raises(TopicAccessDenied, match="create topic 'new'"):
            await writer.publish(ANYONE, "new", records, makes_topic=True)
        maker = BrokerService(node, Granted(create)).publishing
        with pytest.raises(TopicAccessDenied, match="write topic 'new'"):
            await maker.publish(ANYONE, "new", records, makes_topic=True)
        assert "new" not in node.image.topics
        both = BrokerService(node, Granted(write, create)).publishing
        [stored] = await both.publish(ANYONE, "new", records, makes_topic=True)
        assert isinstance(stored, Published)


async def test_delays_are_shown_to_readers_and_cancelled_by_writers(tmp_path: Path) -> None:
    async with running(tmp_path, Clock()) as node:
        await BrokerService(node).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        publishing = BrokerService(node).publishing
        records = [NewRecord(value=b"v")]
        [waits] = await publishing.publish(ANYONE, "orders", records, [START_MS + 500])
        assert isinstance(waits, ScheduledMessage)
        reader = BrokerService(node, Granted(topic("orders", Verb.READ))).delays
        assert len((await reader.list_pending(ANYONE, "orders")).messages) == 1
        with pytest.raises(TopicAccessDenied):
            await reader.cancel(ANYONE, "orders", str(waits.id))
        with pytest.raises(ClusterAccessDenied):
            await reader.stats(ANYONE)
        writer = BrokerService(
            node, Granted(topic("orders", Verb.WRITE), cluster(Verb.DESCRIBE))
        ).delays
        with pytest.raises(TopicAccessDenied):
            await writer.list_pending(ANYONE, "orders")
        stats = await writer.stats(ANYONE)
        assert (stats.pending, stats.topics) == (1, [])
        await writer.cancel(ANYONE, "orders", str(waits.id))
        assert (await writer.stats(ANYONE)).pending == 0
