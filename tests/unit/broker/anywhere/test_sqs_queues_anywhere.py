"""SQS queues of a cluster: what one broker is told, all know when it answers."""

import asyncio
from itertools import cycle

import pytest

from goqueue.broker.calls import news
from goqueue.model.errors import GoQueueError, NotLeader, UnknownTopic
from goqueue.model.log import Published
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.refusals import PurgedJustNow
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import Nodes, RunningNode, with_nodes

QUEUE = "work"


async def brokers_of(nodes: Nodes) -> list[RunningNode]:
    return await nodes.start(1, 2, 3, 4, num__partitions="3", default__replication__factor="3")


@with_nodes
async def test_queues_are_made_changed_and_deleted_at_any_broker(nodes: Nodes) -> None:
    at = cycle(await brokers_of(nodes))
    for round_ in range(8):
        name = f"{QUEUE}-{round_}"
        await next(at).service.sqs_queues.create(ANYONE, name, {"DelaySeconds": "3"}, {"a": "b"})
        queue = next(at).service.sqs_queues.for_sending(ANYONE, name)
        assert (queue.delay_seconds, queue.tags) == (3, {"a": "b"})
        await next(at).service.sqs_queues.set_attributes(
            ANYONE, name, {"DelaySeconds": "5", "VisibilityTimeout": "7"}
        )
        await next(at).service.sqs_queues.set_tags(ANYONE, name, {"a": None, "c": "d"})
        queue = next(at).service.sqs_queues.find(ANYONE, name)
        assert (queue.delay_seconds, queue.tags) == (5, {"c": "d"})
        assert queue.attributes["VisibilityTimeout"] == "7"
        await next(at).service.sqs_queues.delete(ANYONE, name)
        with pytest.raises(UnknownTopic):
            next(at).service.sqs_queues.find(ANYONE, name)


@with_nodes
async def test_counts_are_of_all_leaders(nodes: Nodes) -> None:
    brokers = await brokers_of(nodes)
    await brokers[0].service.sqs_queues.create(ANYONE, QUEUE, {}, {})
    now_ms = brokers[0].node.clock_ms()
    records = [NewRecord(value=b"%d" % at) for at in range(12)]
    partitions = [at % 3 for at in range(12)]
    due = [now_ms + 600_000 if at % 4 == 0 else None for at in range(12)]
    sent = await brokers[3].service.publishing.publish(
        ANYONE, QUEUE, records, due, partitions=partitions
    )
    assert not any(isinstance(each, GoQueueError) for each in sent)
    for broker in brokers:
        counts = await broker.service.sqs_queues.counts(ANYONE, QUEUE)
        assert (counts.visible, counts.in_flight, counts.delayed) == (9, 0, 3)
    await brokers[3].service.sqs_queues.purge(ANYONE, QUEUE)
    for broker in brokers:
        counts = await broker.service.sqs_queues.counts(ANYONE, QUEUE)
        assert (counts.visible, counts.in_flight, counts.delayed) == (0, 0, 0)
        with pytest.raises(PurgedJustNow):
            await broker.service.sqs_queues.purge(ANYONE, QUEUE)


@with_nodes
async def test_a_leader_that_is_away_fails_its_own_messages_alone(nodes: Nodes) -> None:
    started = await nodes.start(1, 2)
    # Each partition on one broker alone: nobody takes over.
    new = NewTopic(name=QUEUE, assignments={0: (1,), 1: (2,)})
    await started[0].service.topics.create(ANYONE, new)
    await nodes.until(lambda: started[0].node.partition(QUEUE, 0))
    await nodes.die(2)
    await nodes.until(lambda: started[0].node.image.topics[QUEUE].partitions[1].leader == -1)
    keys = [b"k%d" % at for at in range(10)]
    records = [NewRecord(key=key, value=b"v") for key in keys]
    outcomes = await started[0].service.publishing.publish(ANYONE, QUEUE, records)
    for key, outcome in zip(keys, outcomes, strict=True):
        expected = Published if partition_for_key(key, 2) == 0 else NotLeader
        assert isinstance(outcome, expected)
    # Whatever may go anywhere goes where there is a leader.
    for _ in range(20):
        outcomes = await started[0].service.publishing.publish(
            ANYONE, QUEUE, [NewRecord(value=b"v")] * 3
        )
        assert all(isinstance(each, Published) for each in outcomes)


@with_nodes
async def test_a_broker_that_hears_nothing_is_not_waited_for_twice(nodes: Nodes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(news, "SPREAD_S", 0.3)
        brokers = await brokers_of(nodes)
        nodes.lines[4].cut()
        loop = asyncio.get_running_loop()
        await brokers[0].service.sqs_queues.create(ANYONE, QUEUE, {}, {})
        began = loop.time()
        for at in range(20):
            await brokers[0].service.sqs_queues.set_tags(ANYONE, QUEUE, {"a": str(at)})
        assert loop.time() - began < 20 * news.SPREAD_S / 2
        assert list(brokers[0].node.news._deaf) == [4]
        nodes.lines[4].heal()
