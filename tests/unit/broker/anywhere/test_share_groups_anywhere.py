"""Share groups whose partitions are led by other brokers than the group's coordinator."""

import asyncio

from goqueue.model.companions import QUEUE_STATE, companion_of
from goqueue.model.errors import NotLeader
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledgement, QueueKey
from goqueue.model.queues.share import (
    NewShareOffset,
    ShareFetch,
    ShareFetched,
    ShareMember,
    ShareOffset,
    SharePart,
)
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.publishing import publish as store
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes
from tests.unit.broker.test_uncommitted import commits_held

GROUP = "g"
PARTITIONS = 3


async def three_leaders(nodes: Nodes) -> list[RunningNode]:
    started = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(PARTITIONS, replicas=(1, 2, 3))
    return started


async def coordinator(nodes: Nodes) -> RunningNode:
    asked = next(iter(nodes.running.values()))
    state = asked.node.groups.state
    await state.ensure()
    place = topic_partition(state.name, state.partition_for(GROUP))
    await nodes.until(lambda: asked.node.calls.leader_of(place) in nodes.running)
    found = nodes.running[asked.node.calls.leader_of(place)]
    await nodes.until(lambda: is_led(found, place))
    return found


def is_led(node: RunningNode, place: TopicPartition) -> bool:
    """It may not have heard of the topic yet."""
    hosted = node.node.hosted.get(*place)
    return hosted is not None and hosted.led is not None


def leader(nodes: Nodes, index: int) -> RunningNode:
    found = nodes.leader(index)
    assert found is not None
    return found


async def fetch(nodes: Nodes, index: int, member: str, *, wait_ms: int = 0) -> ShareFetched:
    at = leader(nodes, index)
    topic_id = at.node.topic(TOPIC).id
    part = SharePart(topic_id, index)
    request = ShareFetch(
        wanted=[part],
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=2**20,
        max_records=100,
        batch_size=100,
    )
    found = await at.service.share_groups.fetch(ANYONE, ShareMember(GROUP, member), request)
    return found[0] if found else ShareFetched(part)


async def offsets(at: RunningNode, *, all_topics: bool = False) -> list[ShareOffset]:
    asked = None if all_topics else [(TOPIC, range(PARTITIONS))]
    found = await at.service.share_groups.describe_offsets(ANYONE, GROUP, asked)
    assert found.error is GroupError.NONE, found
    if not found.topics:
        return []
    [topic] = found.topics
    assert topic.name == TOPIC
    return list(topic.partitions)


async def alter(at: RunningNode, offset: int = 0) -> None:
    wanted = [(TOPIC, [NewShareOffset(index, offset) for index in range(PARTITIONS)])]
    altered = await at.service.share_groups.alter_offsets(ANYONE, GROUP, wanted)
    [topic] = altered.topics
    assert [part.error for part in topic.partitions] == [None] * PARTITIONS


@with_nodes
async def test_the_coordinator_tells_and_changes_offsets_of_all_partitions(nodes: Nodes) -> None:
    await three_leaders(nodes)
    at = await coordinator(nodes)
    await alter(at)
    for index in range(PARTITIONS):
        await leader(nodes, index).produce(b"a", b"b", b"c", index=index)
    assert [(part.start_offset, part.lag) for part in await offsets(at)] == [(0, 3)] * PARTITIONS
    for index in range(PARTITIONS):
        found = await fetch(nodes, index, "m")
        [leased] = found.acquired
        given = {found.part: [Acknowledgement(offsets=leased.offsets, action=AckAction.ACCEPT)]}
        said = await leader(nodes, index).service.share_groups.acknowledge(
            ANYONE, ShareMember(GROUP, "m"), given
        )
        assert list(said.values()) == [QueueError.NONE]
    expected = [(3, 0)] * PARTITIONS
    for all_topics in (False, True):
        told = await offsets(at, all_topics=all_topics)
        assert [(part.start_offset, part.lag) for part in told] == expected
    await alter(at, 1)
    assert [(part.start_offset, part.lag) for part in await offsets(at)] == [(1, 2)] * PARTITIONS
    [deleted] = (await at.service.share_groups.delete_offsets(ANYONE, GROUP, [TOPIC])).topics
    assert deleted.error is None
    assert [part.start_offset for part in await offsets(at)] == [-1] * PARTITIONS
    assert await offsets(at, all_topics=True) == []


@with_nodes
async def test_what_a_member_that_left_had_acquired_is_for_others_at_once(nodes: Nodes) -> None:
    await three_leaders(nodes)
    at = await coordinator(nodes)
    await alter(at)
    joined = await at.service.share_groups.heartbeat(
        ANYONE,
        ShareGroupHeartbeat(
            group_id=GROUP, member_id="first", member_epoch=0, subscribed_topics=(TOPIC,)
        ),
    )
    assert joined.error is GroupError.NONE
    for index in range(PARTITIONS):
        await leader(nodes, index).produce(b"a", index=index)
        assert (await fetch(nodes, index, "first")).acquired
        assert not (await fetch(nodes, index, "second")).acquired
    left = ShareGroupHeartbeat(group_id=GROUP, member_id="first", member_epoch=-1)
    await at.service.share_groups.heartbeat(ANYONE, left)
    async with asyncio.timeout(10):
        for index in range(PARTITIONS):
            found = await fetch(nodes, index, "second", wait_ms=10_000)
            assert [leased.delivery_count for leased in found.acquired] == [2]


@with_nodes
async def test_a_group_begins_everywhere_when_it_first_reads(nodes: Nodes) -> None:
    """At the end, that is. What is sent then it gets, also where it reads later."""
    await three_leaders(nodes)
    for index in range(PARTITIONS):
        await leader(nodes, index).produce(b"before", index=index)
    assert not (await fetch(nodes, 0, "m")).acquired
    for index in range(PARTITIONS):
        await leader(nodes, index).produce(b"after", index=index)
    await nodes.die(leader(nodes, 1).id)
    await nodes.until(lambda: nodes.leader(1))
    for index in range(PARTITIONS):
        found = await fetch(nodes, index, "m", wait_ms=10_000)
        assert found.error is None
        [leased] = found.acquired
        assert leased.offsets.start == 1


@with_nodes
async def test_what_nobody_leads_is_told_of_that_partition_alone(nodes: Nodes) -> None:
    started = await nodes.start(1, 2, 3)
    # Each partition on one broker alone: nobody takes over.
    assigned = {index: (index + 1,) for index in range(PARTITIONS)}
    await started[0].service.topics.create(ANYONE, NewTopic(name=TOPIC, assignments=assigned))
    await nodes.until(
        lambda: all(node.view(i).leader == i + 1 for node in started for i in range(PARTITIONS))
    )
    at = await coordinator(nodes)
    await alter(at)
    away = at.id % 3
    await nodes.die(away + 1)
    told = await offsets(at)
    assert [part.index for part in told if part.error is not None] == [away]
    assert all(part.start_offset == 0 for part in told if part.index != away)


@with_nodes
async def test_a_fetch_elsewhere_leaves_a_groups_settings_as_they_are(nodes: Nodes) -> None:
    """A broker that was just started opens the group's queues at all leaders."""
    await three_leaders(nodes)
    for index in range(PARTITIONS):
        await fetch(nodes, index, "m")

    def limits() -> list[int]:
        found = []
        for index in range(PARTITIONS):
            at = leader(nodes, index).node
            key = QueueKey(GROUP, at.topic(TOPIC).id, index)
            found += [
                settings.max_deliveries
                for shard in at.queues.registry.state.loaded_shards()
                if (settings := shard.machine.settings(key)) is not None
            ]
        return found

    own = leader(nodes, 0).node.group_configs.of(GROUP).share_delivery_count_limit
    of_topic = leader(nodes, 0).node.topic_config(leader(nodes, 0).node.topic(TOPIC))
    assert own != of_topic.queue_max_deliveries
    assert limits() == [own] * PARTITIONS
    for running in nodes.running.values():
        running.node.queues.registry._opened_elsewhere.clear()
    leader(nodes, 0).node.share_groups._share_queues.forget(GROUP)
    await fetch(nodes, 0, "m")
    assert limits() == [own] * PARTITIONS


@with_nodes
async def test_a_fetch_tells_of_each_partition_that_is_led_elsewhere_by_now(nodes: Nodes) -> None:
    await three_leaders(nodes)
    await fetch(nodes, 0, "m")
    at = leader(nodes, 0)
    await store(at.node, TOPIC, [NewRecord(value=b"a")], partition=0)
    name = companion_of(QUEUE_STATE, at.node.topic(TOPIC).id)
    state = at.node.partition(name, 0)
    with commits_held(state):
        fetching = asyncio.create_task(fetch(nodes, 0, "m", wait_ms=5_000))
        end = state.log_end_offset
        await nodes.until(lambda: state.log_end_offset > end)
        [shard] = at.node.queues.registry.state.loaded_shards()
        shard.close(NotLeader("another broker leads it"))
        found = await fetching
    assert isinstance(found.error, NotLeader)
    assert not found.acquired
