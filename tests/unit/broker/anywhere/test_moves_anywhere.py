"""Move tasks in a cluster: asked for at any broker, carried out at one, or at the next."""

import asyncio
from collections import Counter

import pytest

from goqueue.broker.queues import moves
from goqueue.model.queues.moves import MoveEnded, MoveRunning, MoveStatus, MoveTask, NewMove
from goqueue.model.records import NewRecord
from goqueue.model.rights import ReadableTopic
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import Nodes, RunningNode, with_nodes

PARTITIONS = 3
ARN = "arn:aws:sqs:eu-west-1:000000000000:"
BACK = NewMove("dead", ARN + "dead", None, None, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a runner that is gone had taken comes back soon."""
    monkeypatch.setattr(moves, "LEASE_MS", 2_000)
    monkeypatch.setattr(moves, "RETRY_S", 0.1)
    monkeypatch.setattr(moves, "STEP_MESSAGES", 10)


async def with_dead_letters(nodes: Nodes, count: int) -> list[RunningNode]:
    started = await nodes.start(
        1, 2, 3, 4, num__partitions=str(PARTITIONS), default__replication__factor="3"
    )
    queues = started[3].service.sqs_queues
    await queues.create(ANYONE, "dead", {}, {})
    policy = f'{{"deadLetterTargetArn":"{ARN}dead","maxReceiveCount":3}}'
    await queues.create(ANYONE, "source", {"RedrivePolicy": policy}, {})
    await nodes.until(
        lambda: all({"dead", "source"} <= each.node.image.topics.keys() for each in started)
    )
    came_from = (("goqueue-dlq-topic", b"source"),)
    outcomes = await started[0].service.publishing.publish(
        ANYONE,
        "dead",
        [NewRecord(value=b"%d" % at, headers=came_from) for at in range(count)],
        partitions=[at % PARTITIONS for at in range(count)],
    )
    assert not any(isinstance(each, Exception) for each in outcomes)
    return started


async def task_at(node: RunningNode) -> MoveTask:
    tasks = await node.service.moves.list_tasks(ANYONE, "dead")
    return tasks[0]


async def until_ended(node: RunningNode) -> MoveTask:
    while (task := await task_at(node)).status is MoveStatus.RUNNING:
        await asyncio.sleep(0.02)
    return task


async def moved_values(node: RunningNode) -> Counter[bytes | None]:
    found: Counter[bytes | None] = Counter()
    for index in range(PARTITIONS):
        topic = ReadableTopic("source")
        _, end = await node.node.log_anywhere.ends(topic, index, is_settled=True)
        offset = 0
        while offset < end:
            page = await node.node.log_anywhere.read_records(
                topic, index, offset, limit=1_000, max_bytes=2**20
            )
            found.update(record.value for record in page.records)
            offset = page.next_offset
    return found


def runner(nodes: Nodes) -> RunningNode:
    view = next(iter(nodes.running.values())).node.image.topics["dead"]
    return nodes.running[view.partitions[0].leader]


@with_nodes
async def test_started_and_listed_at_a_broker_that_leads_nothing(nodes: Nodes) -> None:
    brokers = await with_dead_letters(nodes, 60)
    await brokers[3].service.moves.start(ANYONE, BACK)
    task = await until_ended(brokers[3])
    assert (task.status, task.moved, task.to_move) == (MoveStatus.COMPLETED, 60, 60)
    assert await moved_values(brokers[3]) == Counter(b"%d" % at for at in range(60))
    counts = await brokers[3].service.sqs_queues.counts(ANYONE, "dead")
    assert (counts.visible, counts.in_flight) == (0, 0)
    await nodes.until(lambda: all(_is_ended(node, task.id) for node in brokers))


def _is_ended(node: RunningNode, task_id: str) -> bool:
    return node.node.moves._tasks().find(task_id).status is MoveStatus.COMPLETED


@with_nodes
async def test_cancelled_at_another_broker(nodes: Nodes) -> None:
    brokers = await with_dead_letters(nodes, 90)
    task = await brokers[3].service.moves.start(ANYONE, BACK._replace(rate=20))
    with pytest.raises(MoveRunning):
        await brokers[0].service.moves.start(ANYONE, BACK)
    while (await task_at(brokers[2])).moved == 0:
        await asyncio.sleep(0.01)
    await nodes.until(lambda: all(node.node.moves._tasks().running() for node in brokers))
    moved = await brokers[1].service.moves.cancel(ANYONE, "dead", task.id)
    assert 0 < moved < 90
    assert sum((await moved_values(brokers[0])).values()) == moved
    with pytest.raises(MoveEnded):
        await brokers[1].service.moves.cancel(ANYONE, "dead", task.id)
    assert (await task_at(brokers[1])).status is MoveStatus.CANCELLED


@with_nodes
async def test_the_next_leader_goes_on(nodes: Nodes) -> None:
    brokers = await with_dead_letters(nodes, 120)
    await brokers[3].service.moves.start(ANYONE, BACK._replace(rate=60))
    first = runner(nodes)
    while (await task_at(first)).moved < 30:
        await asyncio.sleep(0.01)
    await nodes.die(first.id)
    left = next(iter(nodes.running.values()))
    task = await until_ended(left)
    assert task.status is MoveStatus.COMPLETED
    found = await moved_values(left)
    assert set(found) == {b"%d" % at for at in range(120)}
    # What the first one had sent and not deleted may be there twice.
    assert sum(found.values()) - 120 <= moves.STEP_MESSAGES
    counts = await left.service.sqs_queues.counts(ANYONE, "dead")
    assert (counts.visible, counts.in_flight) == (0, 0)
