"""Figures of several brokers: each tells of what it leads, so that their sum is the cluster's."""

import asyncio
import contextlib
from collections import Counter

import pytest

from goqueue.broker.measuring import behind
from goqueue.model.errors import GoQueueError, NotLeader, StateLoading
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.measuring.figures import BrokerFigures, GroupTopic
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import NewSchema
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes


async def figures(node: RunningNode) -> BrokerFigures:
    return await node.service.measuring.figures(ANYONE, groups_max=100, queues_max=100)


async def commit(nodes: Nodes, group: str, offset: int) -> RunningNode:
    """Returns the group's coordinator."""
    committed = OffsetToCommit(topic=TOPIC, partition=0, offset=offset)
    request = OffsetCommit(group_id=group, offsets=(committed,))
    while True:
        for node in nodes.running.values():
            with contextlib.suppress(NotLeader, StateLoading):
                [done] = (await node.service.groups.commit(ANYONE, request)).partitions
                assert done.error is GroupError.NONE
                groups = node.node.groups.state
                place = groups.place(groups.partition_for(group))
                return nodes.running[node.node.calls.leader_of(place)]
        await asyncio.sleep(0.01)


@with_nodes
async def test_each_figure_is_told_by_one_broker(nodes: Nodes) -> None:
    running = await nodes.start(1, 2, 3)
    await nodes.make_topic(partitions=6)
    await nodes.until_in_sync(1, 2, 3)
    for index in range(6):
        leader = nodes.leader(index)
        assert leader is not None
        batch = encode_records(
            [NewRecord(value=b"v")], now_ms=1, producer_id=7, producer_epoch=0, base_sequence=0
        )
        await leader.service.log.produce(ANYONE, TOPIC, index, batch, acks=-1, timeout_ms=9_000)
    letters = NewTopic(name=f"{TOPIC}.dlq", partitions=1, replication_factor=3)
    await running[0].service.topics.create(ANYONE, letters)
    await nodes.until(lambda: all(f"{TOPIC}.dlq" in each.node.image.topics for each in running))
    await publish(running[0].node, f"{TOPIC}.dlq", [NewRecord(value=b"dead")])
    await running[1].service.schemas.register(
        ANYONE, "s", NewSchema(SchemaType.JSON, '{"type":"string"}')
    )
    found = [await figures(node) for node in running]
    led = Counter(
        (each.topic, each.partition) for told in found for each in told.partitions if each.is_led
    )
    copies = Counter((each.topic, each.partition) for told in found for each in told.partitions)
    assert {count for name, count in led.items() if name[0] == TOPIC} == {1}
    assert {count for name, count in copies.items() if name[0] == TOPIC} == {3}
    assert (
        sum(each.messages_in for told in found for each in told.partitions if each.topic == TOPIC)
        == 6
    )
    # Followers know them, too.
    assert sum(told.producers.producers for told in found) == 6
    assert sum(told.queues.dead_letters.pending[f"{TOPIC}.dlq"] for told in found) == 1
    assert [told.schemas.subjects is not None for told in found].count(True) == 1
    assert sum(told.cluster.leaders for told in found) == sum(led.values())


@with_nodes
async def test_the_lag_of_a_group_is_known_where_it_has_no_copy(nodes: Nodes) -> None:
    running = await nodes.start(1, 2, 3, 4)
    coordinator = await commit_elsewhere(nodes)
    others = [node.id for node in running if node is not coordinator]
    await nodes.make_topic(replicas=others[:2])
    assert coordinator.node.hosted.get(TOPIC, 0) is None
    await publish(coordinator.node, TOPIC, [NewRecord(value=b"v")] * 5)
    assert await commit(nodes, "g", 2) is coordinator
    told = await figures(coordinator)
    [group] = [each for each in told.groups.groups if each.group_id == "g"]
    assert [(each.topic, each.committed_offset, each.lag) for each in group.lags] == [(TOPIC, 2, 3)]
    assert 0 <= told.groups.oldest_uncommitted_seconds[GroupTopic("g", TOPIC)] < 60
    for node in running:
        if node is not coordinator:
            assert not (await figures(node)).groups.groups
    # Who cannot be asked is left out, and holds up nobody.
    with pytest.MonkeyPatch.context() as patch:

        async def never(*_args: object, **_kwargs: object) -> list[object]:
            raise GoQueueError("no")

        patch.setattr(coordinator.node.calls, "ask_broker", never)
        [group] = [
            each for each in (await figures(coordinator)).groups.groups if each.group_id == "g"
        ]
        assert not group.lags


async def commit_elsewhere(nodes: Nodes) -> RunningNode:
    """The coordinator of group "g", before there is anything to commit."""
    groups = next(iter(nodes.running.values())).node.groups.state
    await groups.ensure()
    place = groups.place(groups.partition_for("g"))

    def leader() -> RunningNode:
        seen = {node.node.calls.leader_of(place) for node in nodes.running.values()}
        [only] = seen
        return nodes.running[only]

    while True:
        with contextlib.suppress(GoQueueError, ValueError, KeyError):
            return leader()
        await asyncio.sleep(0.01)


@with_nodes
async def test_calls_between_brokers_are_counted_on_both_sides(nodes: Nodes) -> None:
    one, two, three = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await nodes.until(lambda: all(node.view().leader == 1 for node in (one, two, three)))
    for _ in range(3):
        await publish(two.node, TOPIC, [NewRecord(value=b"x" * 1_000)])
    await publish(one.node, TOPIC, [NewRecord(value=b"here")])
    asked, served = two.node.calls.figures(), one.node.calls.figures()
    append = "publishing.append"
    assert sum(asked.asked.latencies[append].counts) == 3
    assert sum(served.served.latencies[append].counts) == 3
    assert append not in served.asked.latencies
    assert asked.asked.request_bytes > 3_000
    assert served.served.request_bytes > 3_000
    assert asked.asked.answer_bytes > 0
    assert served.served.answer_bytes > 0
    assert asked.links >= 1
    assert asked.failures[append, "unreachable"] == 0
    assert not any(asked.failures.values())
    assert asked.unanswered == {1: 0, 3: 0}
    # One that does not answer lists.
    with pytest.MonkeyPatch.context() as patch:

        async def slow(_request: object) -> object:
            await asyncio.sleep(60)
            raise AssertionError

        served_by = one.node.calls._served
        patch.setitem(served_by, "stories.figures", served_by["stories.figures"]._replace(run=slow))
        gathering = asyncio.create_task(two.service.tracing.figures(ANYONE))
        await nodes.until(lambda: one.node.calls.figures().served.in_flight)
        assert two.node.calls.figures().asked.in_flight >= 1
        await gathering
    told = two.node.calls.figures()
    assert told.unanswered == {1: 1, 3: 0}
    assert told.failures["stories.figures", "timed_out"] == 1
    # And one that is gone.
    await one.door.stop()
    calls = two.node.calls
    question = behind.HowFarBehind([])
    with pytest.raises(GoQueueError):
        await calls.ask(
            behind.BEHIND, topic_partition(TOPIC, 0), question, timeout_s=0.5, patience_s=0
        )
    failures = calls.figures().failures
    assert sum(count for (_, reason), count in failures.items() if reason == "unreachable")
