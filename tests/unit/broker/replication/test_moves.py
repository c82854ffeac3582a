"""Partitions go from broker to broker, in one process: copied, handed over, taken back."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from goqueue.model.errors import (
    GoQueueError,
    InvalidReplicaAssignment,
    NoMoveInProgress,
    NotLeader,
    UnknownNode,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.measuring.figures import ClusterFigures
from goqueue.model.moves import Moves
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication_config import (
    DEFAULT_MOVE_RATE,
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVE_RATE,
    MOVES_PAUSED,
    NO_MOVE_LIMIT,
)
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

PLACE = topic_partition(TOPIC, 0)
LARGE = b"x" * 400_000


async def move(
    nodes: Nodes, *target: int, place: TopicPartition = PLACE, by: int | None = None
) -> GoQueueError | None:
    """By any broker; to nowhere takes it back."""
    node = nodes.running[next(iter(nodes.running)) if by is None else by]
    wanted = {place: target or None}
    return (await node.service.replica_moves.alter(ANYONE, wanted))[place]


def replicas(nodes: Nodes) -> tuple[int, ...]:
    return next(iter(nodes.running.values())).view().replicas


async def until_moved(nodes: Nodes, *target: int) -> None:
    await nodes.until(
        lambda: all(
            node.view().replicas == target and node.view().state.move is None
            for node in nodes.running.values()
        )
    )


def folders(node: RunningNode) -> list[str]:
    logs: Path = node.node._directory.logs_path
    return sorted(path.name for path in logs.iterdir() if path.name.startswith(f"{TOPIC}-"))


async def going_on(node: RunningNode) -> Moves:
    return await node.service.replica_moves.going_on(ANYONE)


async def figures_of(node: RunningNode) -> ClusterFigures:
    read = await node.service.measuring.figures(ANYONE, groups_max=0, queues_max=0)
    return read.cluster


@with_nodes
async def test_a_partition_goes_to_another_broker(nodes: Nodes) -> None:
    one, *_, four = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    for count in range(20):
        await one.produce(b"%d" % count)
    assert await move(nodes, 4, 2, 3, by=2) is None
    await until_moved(nodes, 4, 2, 3)
    # The leader left: the first of the target leads, with everything, and the old copy is gone.
    await nodes.until(lambda: four.leads())
    assert await four.read_all() == [b"%d" % count for count in range(20)]
    assert await four.produce(b"20") == 20
    assert one.node.hosted.get(TOPIC, 0) is None
    await nodes.until(lambda: folders(one) == [])
    with pytest.raises(NotLeader):
        await one.produce(b"late")
    await nodes.until_in_sync(2, 3, 4)


@with_nodes
async def test_it_goes_and_comes_back(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    written: list[bytes] = []
    for turn in range(4):
        leader = nodes.leader()
        assert leader is not None
        for number in range(5):
            written.append(b"%d.%d" % (turn, number))
            await leader.produce(written[-1])
        target = (2, 3, 4) if turn % 2 == 0 else (1, 2, 3)
        assert await move(nodes, *target) is None
        await until_moved(nodes, *target)
        await nodes.until(lambda: nodes.leader() is not None)
    assert folders(one) == [f"{TOPIC}-0"]
    leader = nodes.leader()
    assert leader is not None
    assert await leader.read_all() == written
    await nodes.until_in_sync(1, 2, 3)
    await nodes.until(lambda: one.replica().log_end_offset == len(written))


@with_nodes
async def test_what_is_written_meanwhile_is_there(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    acknowledged: list[bytes] = []
    is_over = asyncio.Event()

    async def write() -> None:
        number = 0
        while not is_over.is_set():
            leader = nodes.leader()
            if leader is None:
                await asyncio.sleep(0.001)
                continue
            value = b"%d" % number
            number += 1
            with contextlib.suppress(GoQueueError):
                await leader.produce(value)
                acknowledged.append(value)
            await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    for target in ((4, 2, 3), (1, 4, 2), (1, 3), (2, 3, 4)):
        before = len(acknowledged)
        assert await move(nodes, *target) is None
        await until_moved(nodes, *target)
        await nodes.until(lambda before=before: len(acknowledged) > before + 20)  # type: ignore[misc]
    is_over.set()
    await writing
    leader = nodes.leader()
    assert leader is not None
    found = await leader.read_all()
    assert set(acknowledged) <= set(found)
    places = [found.index(value) for value in acknowledged]
    assert places == sorted(places)


@with_nodes
async def test_a_pause_a_rate_and_a_cancel(nodes: Nodes) -> None:
    one, *_, four = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    for _ in range(5):
        await one.produce(LARGE)
    await one.service.replica_moves.hold_back(ANYONE, is_paused=True)
    assert await move(nodes, 4, 2, 3) is None
    await nodes.until(lambda: four.replica().following is not None)
    # Producers do not wait for it, and it copies nothing.
    for _ in range(3):
        await one.produce(LARGE)
    found = await going_on(four)
    assert found.is_paused
    [going] = found.moves
    [copy] = going.copies
    assert (copy.node, copy.is_in_sync, copy.messages_left) == (4, False, 8)
    assert copy.bytes_left is not None
    assert copy.bytes_left > 8 * len(LARGE)
    assert four.replica().log_end_offset == 0
    figures = await figures_of(one)
    assert (figures.moving_partitions, figures.are_moves_paused) == (1, True)
    assert figures.replication.added_copies == 1
    assert figures.replication.added_bytes_left == copy.bytes_left

    # A rate of a byte per second: one answer comes, and no second one.
    await one.service.replica_moves.hold_back(ANYONE, is_paused=False, rate_bytes=1)
    await nodes.until(lambda: four.replica().log_end_offset == 1)
    await one.produce(LARGE)
    assert four.replica().log_end_offset == 1
    assert (await going_on(one)).rate_bytes == 1
    assert replicas(nodes) == (1, 2, 3, 4)

    assert await move(nodes) is None
    await until_moved(nodes, 1, 2, 3)
    assert four.node.hosted.get(TOPIC, 0) is None
    await nodes.until_in_sync(1, 2, 3)
    assert isinstance(await move(nodes), NoMoveInProgress)
    assert (await going_on(one)).moves == []

    await one.service.replica_moves.hold_back(ANYONE, rate_bytes=0)
    assert await move(nodes, 4, 2, 3) is None
    await until_moved(nodes, 4, 2, 3)
    overrides = one.node.image.broker_config(None)
    assert overrides[MOVE_RATE] == str(NO_MOVE_LIMIT)
    assert (await going_on(one)).rate_bytes is None
    assert MOVES_PAUSED not in overrides


@with_nodes
async def test_a_move_ends_where_more_is_written_than_its_rate(nodes: Nodes) -> None:
    one, *_, four = await nodes.start(1, 2, 3, 4)
    assert (await going_on(one)).rate_bytes == DEFAULT_MOVE_RATE
    await nodes.make_topic(replicas=(1, 2, 3))
    for _ in range(5):
        await one.produce(LARGE)
    # Less than half of what is written below.
    await one.service.replica_moves.hold_back(ANYONE, rate_bytes=10 * len(LARGE))
    is_over = asyncio.Event()
    written = 0

    async def write() -> None:
        nonlocal written
        while not is_over.is_set():
            leader = nodes.leader()
            if leader is not None:
                with contextlib.suppress(GoQueueError):
                    await leader.produce(LARGE)
                    written += 1
            await asyncio.sleep(0.04)

    writing = asyncio.create_task(write())
    await nodes.until(lambda: written > 10)
    assert await move(nodes, 4, 2, 3) is None
    await until_moved(nodes, 4, 2, 3)
    is_over.set()
    await writing
    figures = await figures_of(four)
    assert (figures.moving_partitions, figures.replication.added_copies) == (0, 0)
    assert figures.replication.moved_in_bytes > 5 * len(LARGE)


@with_nodes
async def test_kafkas_rates_hold_instead_where_they_are_set(nodes: Nodes) -> None:
    """As kafka-reassign-partitions.sh --throttle does: it names what moves, and both rates."""
    one, *_, four = await nodes.start(1, 2, 3, 4)
    config = {
        "leader.replication.throttled.replicas": "0:1,0:2,0:3",
        "follower.replication.throttled.replicas": "0:4",
    }
    await nodes.make_topic(replicas=(1, 2, 3), config=config)
    for _ in range(5):
        await one.produce(LARGE)
    throttles = [node.node.replication.throttles for node in nodes.running.values()]  # type: ignore[union-attr]
    # Names alone change nothing.
    await one.service.replica_moves.hold_back(ANYONE, rate_bytes=1)
    assert await move(nodes, 4, 2, 3) is None
    await nodes.until(lambda: four.replica().log_end_offset == 1)
    assert throttles[3].holds_back_move(four.replica(), is_behind=True)

    rates = {MOVE_RATE: "1", LEADER_RATE: "50000000", FOLLOWER_RATE: "50000000"}
    await nodes.store.put(*keys.broker_config_entry(None, rates))
    await until_moved(nodes, 4, 2, 3)


@with_nodes
async def test_a_move_outlives_its_controller_and_the_new_copy(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    leader = nodes.leader()
    assert leader is not None
    for _ in range(5):
        await leader.produce(LARGE)
    await leader.service.replica_moves.hold_back(ANYONE, is_paused=True)
    assert await move(nodes, 1, 2, 4) is None
    await nodes.die(4)
    controller = leader.node.image.controller_id
    if controller != 4:
        await nodes.die(controller)
        await nodes.start(controller)
    await nodes.start(4)
    some = nodes.running[2]
    await some.service.replica_moves.hold_back(ANYONE, is_paused=False)
    await until_moved(nodes, 1, 2, 4)
    await nodes.until_in_sync(1, 2, 4)
    leader = nodes.leader()
    assert leader is not None
    assert len(await leader.read_all()) == 5


@with_nodes
async def test_a_copy_that_left_while_its_broker_was_down_is_removed(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    leader = nodes.leader()
    assert leader is not None
    await leader.produce(b"a")
    await nodes.stop(3)
    await nodes.until_in_sync(1, 2)
    assert await move(nodes, 1, 2, 4) is None
    await until_moved(nodes, 1, 2, 4)
    [three] = await nodes.start(3)
    assert folders(three) == []
    assert three.node.hosted.get(TOPIC, 0) is None


@with_nodes
async def test_a_topic_is_deleted_on_its_way(nodes: Nodes) -> None:
    one, *_, four = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    for _ in range(3):
        await one.produce(LARGE)
    # One answer comes, and no second one: it is in the middle.
    await one.service.replica_moves.hold_back(ANYONE, rate_bytes=1)
    assert await move(nodes, 4, 2, 3) is None
    await nodes.until(lambda: four.replica().log_end_offset == 1)
    await one.service.topics.delete(ANYONE, TOPIC)
    await nodes.until(lambda: all(TOPIC not in n.node.image.topics for n in nodes.running.values()))
    for node in nodes.running.values():
        await nodes.until(lambda node=node: folders(node) == [])  # type: ignore[misc]
        assert node.node.replication is not None
        assert not node.node.replication._following
    assert (await going_on(one)).moves == []
    assert isinstance(await move(nodes), UnknownTopic)

    # Under the same name it is another topic, and moves like one.
    await nodes.make_topic(replicas=(1, 2, 3))
    await one.service.replica_moves.hold_back(ANYONE, rate_bytes=0)
    await nodes.until(lambda: nodes.leader() is not None)
    assert await move(nodes, 4, 2, 3) is None
    await until_moved(nodes, 4, 2, 3)
    await nodes.until_in_sync(2, 3, 4)


@with_nodes
async def test_the_number_of_a_forgotten_broker_is_not_cordoned(nodes: Nodes) -> None:
    """Brokers are drained before they are forgotten, and numbers are used again."""
    one, _ = await nodes.start(1, 2, default__replication__factor="1")
    await one.service.replica_moves.cordon(ANYONE, NodeId(2), is_cordoned=True)
    assert one.node.image.broker_config(NodeId(2)) == {"cordoned.log.dirs": "*"}
    await nodes.stop(2)
    await nodes.until(lambda: NodeId(2) not in one.node.image.brokers)
    await one.service.cluster.forget_node(ANYONE, NodeId(2))
    assert one.node.image.broker_config(NodeId(2)) == {}


@with_nodes
async def test_a_broker_that_gets_a_copy_is_forgotten(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3, 4, 5)
    await nodes.make_topic(replicas=(1, 2, 3))
    await one.produce(LARGE)
    service = one.service.replica_moves
    await service.hold_back(ANYONE, is_paused=True)
    assert await move(nodes, 4, 2, 3) is None
    await nodes.stop(4)
    await nodes.until(lambda: NodeId(4) not in one.node.image.brokers)
    await one.service.cluster.forget_node(ANYONE, NodeId(4))
    await service.hold_back(ANYONE, is_paused=False)
    [going] = (await going_on(one)).moves
    [copy] = going.copies
    assert (copy.node, copy.is_in_sync, copy.bytes_left) == (4, False, None)
    # What it was to have is planned for another one, and the move goes on to there.
    plan = await service.drain_plan(ANYONE, NodeId(4))
    [planned] = plan.moves
    assert NodeId(4) not in planned.target
    assert len(planned.target) == 3
    assert await move(nodes, *planned.target) is None
    await until_moved(nodes, *planned.target)
    with pytest.raises(UnknownNode):
        await service.drain_plan(ANYONE, NodeId(4))
    leader = nodes.leader()
    assert leader is not None
    assert await leader.read_all() == [LARGE]


@with_nodes
async def test_a_topic_grows_on_its_way(nodes: Nodes) -> None:
    """New partitions have as many replicas as are wanted, not as there are on the way."""
    one, *_ = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    await one.produce(b"a")
    service = one.service.replica_moves
    await service.hold_back(ANYONE, is_paused=True)
    assert await move(nodes, 4, 2, 3) is None
    assert replicas(nodes) == (1, 2, 3, 4)
    await one.service.topics.split(ANYONE, TOPIC, 2)
    await nodes.until(lambda: len(one.node.image.topics[TOPIC].partitions) == 2)
    assert len(one.node.image.topics[TOPIC].partitions[1].replicas) == 3
    await service.hold_back(ANYONE, is_paused=False)
    await until_moved(nodes, 4, 2, 3)


@with_nodes
async def test_fewer_and_more_replicas(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    await nodes.make_topic(replicas=(1, 2, 3))
    await one.produce(b"a")
    assert await move(nodes, 2) is None
    await until_moved(nodes, 2)
    await nodes.until(lambda: nodes.running[2].leads())
    await nodes.running[2].produce(b"b")
    assert await move(nodes, 3, 2, 1) is None
    await until_moved(nodes, 3, 2, 1)
    await nodes.until_in_sync(1, 2, 3)
    # Only another order: the first of them leads when leaders are balanced.
    assert await move(nodes, 1, 2, 3) is None
    await until_moved(nodes, 1, 2, 3)


@with_nodes
async def test_what_is_refused(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    await nodes.make_topic(replicas=(1, 2))
    service = one.service.replica_moves
    for target in ((), (1, 1), (1, 9), (1, -1)):
        failure = (await service.alter(ANYONE, {PLACE: target}))[PLACE]
        assert isinstance(failure, InvalidReplicaAssignment), target
    unknown = topic_partition(TOPIC, 7), topic_partition("nobody", 0)
    answers = await service.alter(ANYONE, dict.fromkeys(unknown, (1, 2)))
    assert [type(answers[name]) for name in unknown] == [UnknownPartition, UnknownTopic]
    kept = await service.alter(ANYONE, {PLACE: (1, 2, 3)}, keep_factor=True)
    assert isinstance(kept[PLACE], InvalidReplicaAssignment)
    await service.cordon(ANYONE, NodeId(3), is_cordoned=True)
    assert isinstance(await move(nodes, 1, 3), InvalidReplicaAssignment)
    await service.cordon(ANYONE, NodeId(3), is_cordoned=False)
    assert await move(nodes, 1, 3) is None
    await until_moved(nodes, 1, 3)


@with_nodes
async def test_plans(nodes: Nodes) -> None:
    one, *_ = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(partitions=6, replicas=(1, 2, 3))
    leader = nodes.leader()
    assert leader is not None
    await leader.produce(LARGE)
    service = one.service.replica_moves
    plan = await service.rebalance_plan(ANYONE)
    assert plan.moves
    assert all(NodeId(4) in move.target for move in plan.moves)
    drain = await service.drain_plan(ANYONE, NodeId(1))
    assert len(drain.moves) == 6
    assert not drain.stuck
    assert drain.copied_bytes > len(LARGE)
    wanted = {topic_partition(m.topic, m.partition): m.target for m in drain.moves}
    assert set((await service.alter(ANYONE, wanted)).values()) == {None}
    await nodes.until(
        lambda: all(
            NodeId(1) not in view.replicas for view in one.node.image.topics[TOPIC].partitions
        )
    )
    assert folders(one) == []
