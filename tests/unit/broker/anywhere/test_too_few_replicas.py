"""Single messages for a partition that cannot commit: refused at once, and nothing is written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import msgspec
import pytest

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues import moves
from goqueue.broker.runtime import shard
from goqueue.model.companions import DELAYED, KINDS, companion_of
from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import NotEnoughReplicas, NotEnoughReplicasAfterAppend
from goqueue.model.header_names import DELAY_MS
from goqueue.model.log import Published
from goqueue.model.publishing import Outcome
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.fifo import FifoMessage, SentOnce
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.moves import MoveStatus, NewMove
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import InitProducerId
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.unit.broker.anywhere import test_fifo_anywhere as fifo
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes
from tests.unit.broker.replication.test_in_sync_sets import stop_copying

HOUR_MS = 3_600_000
# Far less than an append waits for its commit.
AT_ONCE_S = 10.0


@asynccontextmanager
async def at_once() -> AsyncIterator[None]:
    async with asyncio.timeout(stretched(AT_ONCE_S)):
        yield


async def alone(nodes: Nodes) -> list[RunningNode]:
    """Broker 1 leads a topic whose other two replicas are gone; 4 has nothing of it."""
    brokers = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    await schedule(brokers[3], b"before")
    await publish(brokers[3], b"before")
    await nodes.die(2)
    await nodes.die(3)
    await nodes.until(lambda: all(is_alone(each) for each in led(brokers[0])))
    return [brokers[0], brokers[3]]


def led(node: RunningNode) -> list[Partition]:
    """All that broker 1 led with others."""
    return [
        hosted.led
        for hosted in node.node.hosted
        if hosted.led is not None
        and hosted.led.leading is not None
        and len(hosted.led.leading.state.replicas) > 1
    ]


def is_alone(partition: Partition) -> bool:
    assert partition.leading is not None
    return len(partition.leading.state.in_sync) == 1


def ends(node: RunningNode) -> dict[str, int]:
    return {str(partition.name): partition.log_end_offset for partition in led(node)}


async def publish(at: RunningNode, value: bytes, topic: str = TOPIC) -> Outcome:
    [outcome] = await at.service.publishing.publish(ANYONE, topic, [NewRecord(value=value)])
    return outcome


async def schedule(at: RunningNode, value: bytes) -> Outcome:
    due = [at.node.clock_ms() + HOUR_MS]
    [outcome] = await at.service.publishing.publish(ANYONE, TOPIC, [NewRecord(value=value)], due)
    return outcome


async def waiting(at: RunningNode) -> list[bytes | None]:
    page = await at.service.delays.list_pending(ANYONE, TOPIC)
    return [message.record.value for message in page.messages]


@with_nodes
async def test_messages_are_refused_at_any_broker_until_there_are_enough(nodes: Nodes) -> None:
    brokers = await alone(nodes)
    before = ends(brokers[0])
    assert len(before) == 2, "the topic, and what waits for it"
    for broker in brokers:
        async with at_once():
            assert isinstance(await publish(broker, b"refused"), NotEnoughReplicas)
            assert isinstance(await schedule(broker, b"refused"), NotEnoughReplicas)
    assert ends(brokers[0]) == before
    await nodes.start(2)
    await nodes.until_in_sync(1, 2)
    assert isinstance(await publish(brokers[1], b"after"), Published)
    assert await brokers[0].read_all() == [b"before", b"after"]
    assert await waiting(brokers[1]) == [b"before"]


@with_nodes
async def test_what_waits_is_not_cancelled_by_one_alone(nodes: Nodes) -> None:
    brokers = await alone(nodes)
    [message] = (await brokers[0].service.delays.list_pending(ANYONE, TOPIC)).messages
    before = ends(brokers[0])
    for broker in brokers:
        async with at_once():
            with pytest.raises(NotEnoughReplicas):
                await broker.service.delays.cancel(ANYONE, TOPIC, str(message.id))
    assert ends(brokers[0]) == before
    assert await waiting(brokers[1]) == [b"before"]


@with_nodes
async def test_a_companion_that_is_alone_takes_no_delayed_part(nodes: Nodes) -> None:
    one, two, three = await nodes.start(1, 2, 3)
    await nodes.make_topic()
    await schedule(one, b"before")
    for other in (two, three):
        await stop_copying(other)
    companion = one.node.partition(companion_of(DELAYED, one.node.topic(TOPIC).id), 0)
    assert companion.leading is not None
    state = companion.leading.state
    companion.leading.state = msgspec.structs.replace(state, in_sync=state.in_sync[:1])
    before = ends(one)
    later = NewRecord(value=b"later", headers=((DELAY_MS, b"3600000"),))
    batch = encode_records([NewRecord(value=b"now"), later], now_ms=one.node.clock_ms())
    async with at_once():
        assert isinstance(await schedule(one, b"refused"), NotEnoughReplicas)
        [outcome] = await one.service.publishing.publish(ANYONE, TOPIC, [later])
        assert isinstance(outcome, NotEnoughReplicas)
        for acks in (1, -1):
            with pytest.raises(NotEnoughReplicas):
                await one.service.log.produce(ANYONE, TOPIC, 0, batch, acks=acks, timeout_ms=30_000)
    assert ends(one) == before


@with_nodes
async def test_a_refused_fifo_message_may_be_sent_again(nodes: Nodes) -> None:
    brokers = await fifo.make_queue(nodes, 1, 2, 3)
    group = fifo.GROUPS[0]
    first = await fifo.send(brokers[0], fifo.message(group, "a"))
    gone = [node for node in (1, 2, 3) if node != fifo.leader(nodes, 0).id]
    for node in gone:
        await nodes.die(node)
    [last] = nodes.running.values()
    await nodes.until(lambda: all(is_alone(each) for each in led(last)))
    await nodes.until(lambda: fifo.leader(nodes, 0).id == last.id)
    before = ends(last)

    async def refused(*messages: FifoMessage) -> None:
        sent = await last.service.fifo.send(ANYONE, fifo.QUEUE, messages)
        assert [type(each) for each in sent] == [NotEnoughReplicas] * len(messages)

    async with at_once():
        await asyncio.gather(
            refused(fifo.message(group, "b"), fifo.message(group, "c")),
            refused(fifo.message(group, "d", delay_ms=500_000)),
        )
        await refused(fifo.message(group, "b"))
    assert ends(last).items() >= before.items()
    queue = last.node.fifo._queues[fifo.QUEUE]
    assert not queue.in_doubt, "it is known not to be stored"
    await nodes.start(gone[0])
    await nodes.until(lambda: not any(is_alone(each) for each in led(last)))
    again = await fifo.send(last, fifo.message(group, "b"), fifo.message(group, "c"))
    assert all(isinstance(each, SentOnce) for each in again)
    fifo.check_order(await fifo.stored(last), [*first, *again])


async def take(at: RunningNode, *, wait_ms: int = 20_000) -> bytes | None:
    """One message of the topic as a queue; acknowledged on return."""
    request = Receive(max_messages=1, start="earliest", wait_ms=wait_ms)
    [found] = await at.service.queues.receive(ANYONE, "g", TOPIC, request)
    [settled] = await at.service.queues.settle(
        ANYONE, "g", settle_all([found.receipt], AckAction.ACCEPT)
    )
    assert settled is QueueError.NONE
    return found.record.value


@with_nodes
async def test_a_topic_that_needs_no_others_has_queues_and_delays_that_do_not(
    nodes: Nodes,
) -> None:
    one, *_ = await nodes.start(1, 2, 3)
    await nodes.make_topic(config={"min.insync.replicas": "1"})
    await publish(one, b"a")
    await publish(one, b"b")
    assert await take(one) == b"a"
    await nodes.die(2)
    await nodes.die(3)
    async with at_once():
        await nodes.until(lambda: all(is_alone(each) for each in led(one)))
        assert await take(one) == b"b"
        assert isinstance(await schedule(one, b"later"), ScheduledMessage)


@with_nodes
async def test_queues_of_a_flushed_topic_are_on_the_disks_of_all_replicas(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2, 3)
    await nodes.make_topic(config={"fsync.policy": "always"})
    await publish(brokers[0], b"a")
    await take(brokers[1])
    await schedule(brokers[2], b"later")
    for kind in KINDS:
        name = companion_of(kind, brokers[0].node.topic(TOPIC).id)
        end = brokers[0].node.partition(name, 0).log_end_offset
        assert end
        for broker in brokers:
            copy = broker.node.hosted.get(name, 0)
            assert copy is not None
            assert copy.log.flushed_offset == end
            assert broker.node.topic(name).partitions[0].state.is_flushed


async def make(nodes: Nodes, name: str, *replicas: int) -> None:
    first = next(iter(nodes.running.values()))
    new = NewTopic(name=name, assignments={0: replicas})
    await first.service.topics.create(ANYONE, new)
    await nodes.until(
        lambda: all(nodes.running[node].node.hosted.get(name, 0) for node in replicas)
    )


@with_nodes
async def test_dead_letters_wait_for_replicas_and_are_written_once(nodes: Nodes) -> None:
    (one, _) = await nodes.start(1, 2)
    letters = f"{TOPIC}.dlq"
    await make(nodes, TOPIC, 1)
    await make(nodes, letters, 1, 2)
    await publish(one, b"x")
    await nodes.die(2)
    await nodes.until(lambda: all(is_alone(each) for each in led(one)))
    request = Receive(max_messages=1, start="earliest", wait_ms=20_000)
    found = await one.service.queues.receive(ANYONE, "g", TOPIC, request)
    wanted = settle_all([each.receipt for each in found], AckAction.REJECT)
    await one.service.queues.settle(ANYONE, "g", wanted)
    copies = one.node.queues.dead_letters._copied
    async with at_once():
        # Looked for, and refused.
        await nodes.until(lambda: copies and all(not c.writing.locked() for c in copies.values()))
    assert ends(one) == {f"{letters}-0": 0}
    await nodes.start(2)
    while not (stored := await one.service.queues.dead_letters(ANYONE, TOPIC, limit=10)):
        await asyncio.sleep(0.02)
    assert [letter.record.value for letter in stored] == [b"x"]


@with_nodes
async def test_a_move_task_waits_for_replicas_and_moves_each_once(nodes: Nodes) -> None:
    arn = "arn:aws:sqs:eu-west-1:000000000000:"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "RETRY_S", 0.05)
        (one, _) = await nodes.start(1, 2)
        await make(nodes, "dead", 1)
        await make(nodes, "target", 1, 2)
        policy = f'{{"deadLetterTargetArn":"{arn}dead","maxReceiveCount":3}}'
        await one.service.sqs_queues.create(ANYONE, "target", {"RedrivePolicy": policy}, {})
        for at in range(5):
            await publish(one, b"%d" % at, "dead")
        await nodes.die(2)
        await nodes.until(lambda: all(is_alone(each) for each in led(one)))
        move = NewMove("dead", f"{arn}dead", "target", f"{arn}target", None)
        task = await one.service.moves.start(ANYONE, move)
        # It has tried, more than once.
        for _ in range(20):
            await asyncio.sleep(0.05)
        assert ends(one)["target-0"] == 0
        [told] = await one.service.moves.list_tasks(ANYONE, "dead")
        assert (told.id, told.status) == (task.id, MoveStatus.RUNNING)
        await nodes.start(2)
        while (await one.service.moves.list_tasks(ANYONE, "dead"))[0].status is MoveStatus.RUNNING:
            await asyncio.sleep(0.02)
        [told] = await one.service.moves.list_tasks(ANYONE, "dead")
        assert (told.status, told.moved) == (MoveStatus.COMPLETED, 5)
        assert one.node.partition("target", 0).high_watermark == 5


@with_nodes
async def test_a_queue_that_cannot_commit_says_so_at_once(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2, 3, 4)
    await nodes.make_topic(replicas=(1, 2, 3))
    for value in (b"a", b"b"):
        await publish(brokers[0], value)
    request = Receive(max_messages=1, start="earliest")
    [taken] = await brokers[3].service.queues.receive(ANYONE, "g", TOPIC, request)
    await nodes.die(2)
    await nodes.die(3)
    await nodes.until(lambda: all(is_alone(each) for each in led(brokers[0])))
    before = ends(brokers[0])
    wanted = settle_all([taken.receipt], AckAction.ACCEPT)
    for broker in (brokers[0], brokers[3]):
        async with at_once():
            with pytest.raises(NotEnoughReplicas):
                await broker.service.queues.receive(ANYONE, "g", TOPIC, request)
            [settled] = await broker.service.queues.settle(ANYONE, "g", wanted)
            assert isinstance(settled, NotEnoughReplicas)
    assert ends(brokers[0]) == before
    await nodes.start(2)
    await nodes.until_in_sync(1, 2)
    assert await brokers[3].service.queues.settle(ANYONE, "g", wanted) == [QueueError.NONE]
    [other] = await brokers[3].service.queues.receive(ANYONE, "g", TOPIC, request)
    assert other.record.value == b"b"


@with_nodes
@patch.object(shard, "COMMIT_PATIENCE_MS", 200)
async def test_a_coordinator_that_cannot_commit_says_so(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2, 3)
    request = InitProducerId(transactional_id="shop", timeout_ms=60_000)
    before = await brokers[0].service.producers.init(ANYONE, request)
    place = await brokers[0].node.transactions.coordinator("shop")
    leader = brokers[0].node.image.topics[place.topic].partitions[place.partition].leader
    others = [each for each in (1, 2, 3) if each != leader]
    at = nodes.running[leader]
    for other in others:
        await nodes.die(other)
    await nodes.until(lambda: is_alone(at.node.partition(*place)))
    async with at_once():
        with pytest.raises(NotEnoughReplicasAfterAppend):
            await at.service.producers.init(ANYONE, request)
        end = at.node.partition(*place).log_end_offset
        with pytest.raises(NotEnoughReplicas):
            await at.service.producers.init(ANYONE, request)
    assert at.node.partition(*place).log_end_offset == end
    await nodes.start(others[0])
    await nodes.until(lambda: not is_alone(at.node.partition(*place)))
    after = await at.service.producers.init(ANYONE, request)
    assert (after.producer_id, after.error) == (before.producer_id, before.error)
    assert after.producer_epoch > before.producer_epoch
