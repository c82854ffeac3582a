"""FIFO queues whose partitions are led by several brokers, sent to at any of them."""

import asyncio
from itertools import count, cycle, pairwise

import pytest

from goqueue.broker.queues import fifo as fifo_module
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.names import topic_partition
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.fifo import FifoMessage, SentOnce
from goqueue.model.queues.refusals import PurgedJustNow
from goqueue.model.queues.sqs_headers import (
    DEDUPLICATION_ID,
    GROUP_ID,
    MESSAGE_ID,
    system_facts,
)
from goqueue.model.records import Record
from goqueue.model.rights import ReadableTopic
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import Nodes, RunningNode, with_nodes

QUEUE = "orders.fifo"
PARTITIONS = 3
# By the partition that each is in.
GROUPS = {
    index: next(g for g in map("g{}".format, count()) if partition_for_key(g.encode(), 3) == index)
    for index in range(PARTITIONS)
}
_IDS = count()


def message(group: str, deduplication_id: str, *, delay_ms: int = 0) -> FifoMessage:
    message_id = f"m{next(_IDS)}"
    headers = (
        (MESSAGE_ID, message_id.encode()),
        (GROUP_ID, group.encode()),
        (DEDUPLICATION_ID, deduplication_id.encode()),
    )
    value = deduplication_id.encode()
    return FifoMessage(message_id, group, deduplication_id, value, headers, delay_ms)


async def send(at: RunningNode, *messages: FifoMessage) -> list[SentOnce]:
    sent = await at.service.fifo.send(ANYONE, QUEUE, messages)
    assert all(isinstance(each, SentOnce) for each in sent), sent
    return [each for each in sent if isinstance(each, SentOnce)]


async def make_queue(nodes: Nodes, *ids: int) -> list[RunningNode]:
    started = await nodes.start(
        *ids,
        num__partitions=str(PARTITIONS),
        default__replication__factor="3",
    )
    await started[0].service.sqs_queues.create(ANYONE, QUEUE, {"FifoQueue": "true"}, {})
    await nodes.until(lambda: all(QUEUE in each.node.image.topics for each in started))
    return started


def leader(nodes: Nodes, index: int, node: RunningNode | None = None) -> RunningNode:
    """As one of the brokers sees it, or the first one."""
    asked = node or next(iter(nodes.running.values()))
    return nodes.running[asked.node.image.topics[QUEUE].partitions[index].leader]


async def stored(node: RunningNode) -> dict[int, list[Record]]:
    log = node.node.log_anywhere
    found: dict[int, list[Record]] = {}
    for index in range(PARTITIONS):
        topic = ReadableTopic(QUEUE)
        _, end = await log.ends(topic, index, is_settled=True)
        offset, found[index] = 0, []
        while offset < end:
            page = await log.read_records(topic, index, offset, limit=1_000, max_bytes=2**20)
            found[index] += page.records
            offset = page.next_offset
    return found


def check_order(found: dict[int, list[Record]], sent: list[SentOnce]) -> None:
    """Each once, with the number that its sender was told, and numbers grow along each log."""
    records = [record for part in found.values() for record in part]
    facts = [system_facts(record.headers) for record in records]
    told = {each.message_id: each.sequence_number for each in sent}
    assert {each.message_id: each.sequence_number for each in facts} == told
    assert len(records) == len(told)
    for part in found.values():
        numbers = [system_facts(record.headers).sequence_number or "" for record in part]
        assert all(a < b for a, b in pairwise(numbers))


@with_nodes
async def test_sent_at_every_broker(nodes: Nodes) -> None:
    brokers = await make_queue(nodes, 1, 2, 3, 4)
    assert len({leader(nodes, index).id for index in range(PARTITIONS)}) > 1
    at = cycle(brokers)
    sent: list[SentOnce] = []
    for number in range(30):
        batch = [message(group, f"{group}-{number}") for group in GROUPS.values()]
        sent += await send(next(at), *batch)
        again = await send(
            next(at), *(message(each.group_id, each.deduplication_id) for each in batch)
        )
        assert again == sent[-PARTITIONS:]
    assert sorted(sent, key=lambda each: each.sequence_number) == sent
    found = await stored(brokers[0])
    check_order(found, sent)
    for index, group in GROUPS.items():
        assert [record.value for record in found[index]] == [
            f"{group}-{number}".encode() for number in range(30)
        ]


@with_nodes
async def test_many_at_once_share_batches_and_keep_their_order(nodes: Nodes) -> None:
    brokers = await make_queue(nodes, 1, 2, 3)
    group = GROUPS[1]
    at = cycle(brokers)
    answers = await asyncio.gather(
        *(send(next(at), message(group, f"d{number % 50}")) for number in range(200))
    )
    sent = {each for [each] in answers}
    assert len(sent) == 50
    found = await stored(brokers[0])
    check_order(found, list(sent))
    # Far fewer appends than messages.
    assert len({record.timestamp_ms for record in found[1]}) <= 50


@pytest.mark.parametrize("index", range(PARTITIONS))
def test_a_leader_dies(index: int, tmp_path: object) -> None:
    """With partition 0 it is the one that numbers the messages."""

    @with_nodes
    async def scenario(nodes: Nodes) -> None:
        brokers = await make_queue(nodes, 1, 2, 3, 4)
        sent = []
        for number in range(5):
            for group in GROUPS.values():
                sent += await send(brokers[3], message(group, f"{group}-{number}"))
        delayed = await send(brokers[3], message(GROUPS[index], "later", delay_ms=600_000))
        lost = leader(nodes, index)
        under_way = [
            asyncio.create_task(send(node, message(GROUPS[index], f"under-way-{node.id}")))
            for node in brokers
            if node is not lost
        ]
        await asyncio.sleep(0)
        await nodes.die(lost.id)
        for sending in under_way:
            sent += await sending
        left = list(nodes.running.values())
        at = cycle(left)
        for number in range(5):
            for group in GROUPS.values():
                # The first ones are known: what they were told is told again.
                [again] = await send(next(at), message(group, f"{group}-{number}"))
                assert again == sent[number * PARTITIONS + list(GROUPS.values()).index(group)]
                sent += await send(next(at), message(group, f"{group}-{number + 5}"))
        assert await send(next(at), message(GROUPS[index], "later", delay_ms=600_000)) == delayed
        found = await stored(left[0])
        check_order(found, sent)

    scenario(tmp_path)  # type: ignore[arg-type]


@with_nodes
async def test_numbers_go_on_although_the_next_clock_is_behind(nodes: Nodes) -> None:
    brokers = await make_queue(nodes, 1, 2, 3)
    owner = leader(nodes, 0)
    clock_ms = owner.node.clock_ms
    owner.node.clock_ms = lambda: clock_ms() + 30_000
    [first] = await send(brokers[0], message(GROUPS[1], "a"))
    await nodes.die(owner.id)
    left = next(iter(nodes.running.values()))
    [second] = await send(left, message(GROUPS[1], "b"))
    assert second.sequence_number > first.sequence_number


@with_nodes
async def test_a_replaced_owner_stores_nothing(nodes: Nodes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fifo_module, "PATIENCE_S", 0.5)
        brokers = await make_queue(nodes, 1, 2, 3)
        old = leader(nodes, 0)
        others = [node for node in brokers if node is not old]
        [index] = [i for i in (1, 2) if leader(nodes, i) is not old][:1]
        group = GROUPS[index]
        sent = await send(others[0], message(group, "a"))
        # It does not hear any more that others were elected, and goes on.
        lease = old.membership.lease
        nodes.lines[old.id].cut()
        await nodes.store.revoke(lease)
        await nodes.until(lambda: all(leader(nodes, 0, node) is not old for node in others))
        sent += await send(others[0], message(group, "b"))
        assert old.node.calls.is_here(topic_partition(QUEUE, 0))
        [refused] = await _said(old, message(group, "c"))
        assert isinstance(refused, GoQueueError)
        assert not isinstance(refused, SentOnce)
        sent += await send(others[1], message(group, "c"))
        check_order(await stored(others[0]), sent)
        nodes.lines[old.id].heal()


async def _said(at: RunningNode, *messages: FifoMessage) -> list[SentOnce | GoQueueError]:
    try:
        return await at.service.fifo.send(ANYONE, QUEUE, messages)
    except NotLeader as error:
        return [error] * len(messages)


@with_nodes
async def test_purged_at_any_broker(nodes: Nodes) -> None:
    brokers = await make_queue(nodes, 1, 2, 3, 4)
    queues = brokers[3].service.sqs_queues
    group = GROUPS[1]
    [first] = await send(brokers[0], message(group, "a"))
    [waits] = await send(brokers[1], message(group, "w", delay_ms=600_000))
    await queues.purge(ANYONE, QUEUE)
    with pytest.raises(PurgedJustNow):
        await brokers[0].service.sqs_queues.purge(ANYONE, QUEUE)
    counts = await queues.counts(ANYONE, QUEUE)
    assert (counts.visible, counts.delayed) == (0, 0)
    await nodes.die(leader(nodes, 0).id)
    left = next(iter(nodes.running.values()))
    with pytest.raises(PurgedJustNow):
        await left.service.sqs_queues.purge(ANYONE, QUEUE)
    # The ids are free again, and the numbers are not, though the next clock is behind.
    owner = leader(nodes, 0, left)
    clock_ms = owner.node.clock_ms
    owner.node.clock_ms = lambda: clock_ms() - 30_000
    [again] = await send(left, message(group, "a"))
    assert again.message_id != first.message_id
    assert again.sequence_number > waits.sequence_number > first.sequence_number
