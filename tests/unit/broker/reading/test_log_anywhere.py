"""A log is read at any broker of the cluster: its leader answers."""

import asyncio
from typing import Any, Final

import pytest

from goqueue.broker.reading.log_anywhere import SIZES, STORED
from goqueue.model.errors import GoQueueError, NotLeader, OffsetOutOfRange, UnknownPartition
from goqueue.model.log import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    CountRequest,
    FetchPart,
    Isolation,
    PageRequest,
)
from goqueue.model.rights import ReadableTopic
from goqueue.model.topics import NewTopic
from goqueue.service.log import LogService
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

READABLE: Final = ReadableTopic(TOPIC)


async def started(nodes: Nodes, partitions: int = 1) -> list[RunningNode]:
    """Broker 3 has no replica of the topic."""
    all_ = await nodes.start(1, 2, 3)
    config = {"min.insync.replicas": "1"}
    await nodes.make_topic(partitions, replicas=[1, 2], config=config)
    for index in range(partitions):
        await nodes.until_in_sync(1, 2, index=index)
    return all_


async def values(node: RunningNode, offset: int, max_wait_ms: int = 0) -> list[bytes | None]:
    wanted = PageRequest(offset=offset, limit=100, max_bytes=1_000_000, max_wait_ms=max_wait_ms)
    page = await node.service.log.read_page(ANYONE, TOPIC, 0, wanted)
    return [record.value for record in page.records]


def waiters(node: RunningNode) -> int:
    """Reads that wait at a leader."""
    led = node.replica().led
    assert led is not None
    return len(led.waiters)


@with_nodes
async def test_pages_and_counts_come_from_the_leader(nodes: Nodes) -> None:
    all_ = await started(nodes)
    await all_[0].produce(b"a", b"b", b"c")
    for node in all_:
        assert await values(node, 1) == [b"b", b"c"]
        counted = await node.service.log.count_records(ANYONE, TOPIC, 0, CountRequest())
        assert (counted.records, counted.next_offset) == (3, 3)
        with pytest.raises(OffsetOutOfRange):
            await values(node, 4)
        wanted = PageRequest(limit=1, max_bytes=1)
        with pytest.raises(UnknownPartition):
            await node.service.log.read_page(ANYONE, TOPIC, 1, wanted)


@with_nodes
async def test_a_page_waits_at_the_leader_and_at_the_one_after_it(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    waiting = asyncio.create_task(values(three, 0, max_wait_ms=30_000))
    await nodes.until(lambda: waiters(one))
    await one.produce(b"a")
    assert await waiting == [b"a"]
    waiting = asyncio.create_task(values(three, 1, max_wait_ms=30_000))
    await nodes.until(lambda: waiters(one))
    await nodes.die(1)
    await nodes.until(two.leads)
    await nodes.until(lambda: waiters(two))
    await two.produce(b"b", acks=1)
    assert await waiting == [b"b"]


@with_nodes
async def test_who_hangs_up_is_forgotten_at_the_leader(nodes: Nodes) -> None:
    one, _, three = await started(nodes)
    waiting = asyncio.create_task(values(three, 0, max_wait_ms=30_000))
    await nodes.until(lambda: waiters(one))
    waiting.cancel()
    await nodes.until(lambda: not waiters(one))


@with_nodes
async def test_the_broker_reads_for_its_own_work(nodes: Nodes) -> None:
    one, _, three = await started(nodes)
    await one.produce(b"a", b"b")
    log = three.node.log_anywhere
    page = await log.read_records(READABLE, 0, 0, limit=1, max_bytes=1_000)
    assert ([record.value for record in page.records], page.next_offset) == ([b"a"], 1)
    assert await log.ends(READABLE, 0, is_settled=True) == (0, 2)
    offsets = [
        (await log.list_offset(READABLE, 0, time)).offset
        for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    ]
    assert offsets == [0, 2]


@with_nodes
async def test_kafkas_clients_look_for_the_leader_themselves(nodes: Nodes) -> None:
    _, _, three = await started(nodes)
    log: LogService = three.service.log
    with pytest.raises(NotLeader):
        await log.list_offset(ANYONE, TOPIC, 0, LATEST_TIMESTAMP)
    with pytest.raises(NotLeader):
        await log.delete_records(ANYONE, TOPIC, 0, 0)
    [part] = await log.fetch(
        ANYONE,
        [FetchPart(TOPIC, 0, 0, 1_000)],
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000,
        isolation=Isolation.READ_UNCOMMITTED,
    )
    assert isinstance(part.error, NotLeader)


@with_nodes
async def test_topics_are_described_with_what_their_leaders_have(nodes: Nodes) -> None:
    one, two, three = all_ = await started(nodes, partitions=2)
    await one.produce(b"a")
    await two.produce(b"b", b"c", index=1)
    for node in all_:
        described = await node.service.topics.describe(ANYONE, TOPIC)
        assert [(p.high_watermark, p.offline_reason) for p in described.partitions] == [
            (1, None),
            (2, None),
        ]
        sizes = await node.service.topics.sizes(ANYONE)
        [(topic, size_bytes)] = sizes.topics
        assert (topic.name, size_bytes) == (TOPIC, described.size_bytes)
        assert sizes.unanswered == []

    async def fail(_: object) -> Any:
        raise GoQueueError("not today")

    one.node.calls.serve(STORED, fail)
    one.node.calls.serve(SIZES, fail)
    described = await three.service.topics.describe(ANYONE, TOPIC)
    unknown, known = described.partitions
    assert (unknown.high_watermark, unknown.offline_reason) == (None, "not today")
    assert known.high_watermark == 2
    sizes = await three.service.topics.sizes(ANYONE)
    assert sizes.unanswered == [(1, "not today")]
    assert sizes.topics[0][1] == known.size_bytes


@with_nodes
async def test_a_new_topic_is_described_by_leaders_that_just_heard_of_it(nodes: Nodes) -> None:
    _, _, three = await nodes.start(1, 2, 3)
    for number in range(5):
        created = await three.service.topics.create(
            ANYONE, NewTopic(name=f"new-{number}", partitions=6, replication_factor=1)
        )
        assert {partition.leader for partition in created.topic.partitions} == {1, 2, 3}
        assert [p.high_watermark for p in created.partitions] == [0] * 6


@with_nodes
async def test_a_page_goes_on_where_another_leader_wrote(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    await one.produce(b"a", b"b")
    await nodes.until(lambda: two.replica().log_end_offset == 2)
    await nodes.die(1)
    await nodes.until(two.leads)
    await two.produce(b"c", b"d", acks=1)
    assert await values(three, 0) == [b"a", b"b", b"c", b"d"]
    wanted = PageRequest(offset=1, limit=2, max_bytes=1_000_000)
    page = await three.service.log.read_page(ANYONE, TOPIC, 0, wanted)
    assert ([record.value for record in page.records], page.next_offset) == ([b"b", b"c"], 3)
