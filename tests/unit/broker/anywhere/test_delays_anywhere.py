"""What waits for a topic, asked at brokers that lead none of it, some of it, or all."""

import asyncio

import pytest

from goqueue.broker.delays import waiting
from goqueue.model.delays import DelayedId, ScheduledMessage
from goqueue.model.errors import NotLeader, TooLateToCancel, UnknownDelayedMessage
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

HOUR_MS = 3_600_000
PARTITIONS = 3


async def schedule(at: RunningNode, *due: tuple[bytes, int, int]) -> list[DelayedId]:
    """By value, partition, and when each is due."""
    now_ms = at.node.clock_ms()
    outcomes = await at.service.publishing.publish(
        ANYONE,
        TOPIC,
        [NewRecord(value=value) for value, _, _ in due],
        [now_ms + due_ms for _, _, due_ms in due],
        partitions=[index for _, index, _ in due],
    )
    assert all(isinstance(each, ScheduledMessage) for each in outcomes), outcomes
    return [each.id for each in outcomes if isinstance(each, ScheduledMessage)]


async def listed(at: RunningNode, limit: int = 100) -> list[bytes | None]:
    """All pages."""
    found: list[bytes | None] = []
    after: str | None = None
    while True:
        page = await at.service.delays.list_pending(ANYONE, TOPIC, after=after, limit=limit)
        assert not page.missing
        assert len(page.messages) <= limit
        found += [message.record.value for message in page.messages]
        after = page.next_after
        if after is None:
            return found


async def three_and_one_that_leads_nothing(nodes: Nodes) -> list[RunningNode]:
    started = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(PARTITIONS, replicas=(1, 2, 3))
    return started


@with_nodes
async def test_pages_are_the_same_at_every_broker(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    values = [b"%d" % at for at in range(40)]
    # Most of them wait for one partition: its leader is asked for more of them.
    due = [(value, 0 if at % 4 else at % 3, at) for at, value in enumerate(values)]
    ids = await schedule(brokers[3], *((v, index, HOUR_MS + at) for v, index, at in due))
    for broker in brokers:
        for limit in (1, 7, 39, 40, 100):
            assert await listed(broker, limit) == values
    assert {each.shard for each in ids} == set(range(PARTITIONS))


@with_nodes
async def test_pages_end_before_they_are_large(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    large = b"x" * (waiting.PAGE_BYTES // 5)
    await schedule(brokers[0], *((large, at % 3, HOUR_MS + at) for at in range(6)))
    pages, after = [], None
    while True:
        page = await brokers[3].service.delays.list_pending(ANYONE, TOPIC, after=after)
        pages.append(len(page.messages))
        after = page.next_after
        if after is None:
            break
    assert pages == [4, 2]


@with_nodes
async def test_cancelled_at_a_broker_that_leads_nothing(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    last = brokers[3].service.delays
    ids = await schedule(brokers[0], *((b"%d" % i, i, HOUR_MS) for i in range(PARTITIONS)))
    for at, each in enumerate(ids):
        await last.cancel(ANYONE, TOPIC, str(each))
        assert await listed(brokers[at]) == [b"%d" % i for i in range(at + 1, PARTITIONS)]
        with pytest.raises(UnknownDelayedMessage):
            await last.cancel(ANYONE, TOPIC, str(each))
    for shard in (PARTITIONS, 2**31, 0):
        with pytest.raises(UnknownDelayedMessage):
            await last.cancel(ANYONE, TOPIC, str(DelayedId(ids[0].due_ms, shard, 5)))
    [soon] = await schedule(brokers[3], (b"soon", 1, 500))
    await nodes.until(lambda: _delivered(nodes) == 1)
    with pytest.raises(TooLateToCancel):
        await last.cancel(ANYONE, TOPIC, str(soon))


@with_nodes
async def test_figures_are_those_of_all_brokers(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    ids = await schedule(brokers[3], *((b"x", i % 3, HOUR_MS + i) for i in range(7)))
    await brokers[3].service.delays.cancel(ANYONE, TOPIC, str(ids[-1]))
    await schedule(brokers[1], *((b"y", i, 500) for i in range(PARTITIONS)))
    await nodes.until(lambda: _delivered(nodes) == PARTITIONS)
    for broker in brokers:
        stats = await broker.service.delays.stats(ANYONE)
        assert (stats.pending, stats.cancelled, stats.delivered) == (6, 1, 3)
        assert stats.next_due_ms == ids[0].due_ms
        assert sum(stats.lateness_counts) == 3
        [topic] = stats.topics
        assert (topic.topic, topic.pending, topic.delivered) == (TOPIC, 6, 3)
        assert topic.lateness_p99_ms is not None
        assert list(stats.unanswered) == []
    await nodes.die(2)
    # Until it is known to be gone, its figures are said to be missing.
    stats = await brokers[3].service.delays.stats(ANYONE)
    assert stats.pending >= 4 or [each.broker for each in stats.unanswered] == [2]


@with_nodes
async def test_all_of_a_topic_are_taken_back(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    await schedule(brokers[0], *((b"x", i % 3, HOUR_MS + i) for i in range(30)))
    delays = brokers[3].node.delays.waiting
    access = brokers[3].service.sqs_queues._access
    describable = access.describable_topic(ANYONE, TOPIC)
    assert await delays.pending_count(describable) == 30
    await delays.cancel_all(access.deletable_topic(ANYONE, TOPIC))
    assert await delays.pending_count(describable) == 0
    assert await listed(brokers[1]) == []


@with_nodes
async def test_what_nobody_leads_is_named(nodes: Nodes) -> None:
    started = await nodes.start(1, 2)
    # Each partition on one broker alone: nobody takes over.
    topics = started[0].service.topics
    await topics.create(ANYONE, NewTopic(name=TOPIC, assignments={0: (1,), 1: (2,)}))
    await nodes.until(lambda: all(one.view(i).leader == i + 1 for one in started for i in (0, 1)))
    [kept, lost] = await schedule(started[0], (b"kept", 0, HOUR_MS), (b"lost", 1, HOUR_MS))
    await nodes.die(2)
    await nodes.until(lambda: started[0].view(1).leader == -1)
    async with asyncio.timeout(30):
        page = await started[0].service.delays.list_pending(ANYONE, TOPIC)
    assert [message.id for message in page.messages] == [kept]
    assert isinstance(page.missing[1], NotLeader)
    assert list(page.missing) == [1]
    with pytest.raises(NotLeader):
        await started[0].service.delays.cancel(ANYONE, TOPIC, str(lost))


@with_nodes
async def test_the_next_leader_has_what_waits(nodes: Nodes) -> None:
    brokers = await three_and_one_that_leads_nothing(nodes)
    ids = await schedule(brokers[3], *((b"%d" % i, i % 3, HOUR_MS + i) for i in range(9)))
    await nodes.die(1)
    assert await listed(brokers[3]) == [b"%d" % i for i in range(9)]
    for each in ids:
        await brokers[3].service.delays.cancel(ANYONE, TOPIC, str(each))
    assert await listed(brokers[1]) == []


def _delivered(nodes: Nodes) -> int:
    return sum(
        running.shard.figures.delivered
        for node in nodes.running.values()
        for running in list(node.node.delays.shards.running())[:1]
    )
