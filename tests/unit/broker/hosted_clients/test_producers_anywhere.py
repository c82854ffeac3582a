"""Producers of HTTP clients at any broker: transactions live at their coordinators."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.transactions.anywhere import LIST
from goqueue.broker.transactions.transactions import STATE_TOPIC
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import OffsetToCommit, TxnOffsetCommit
from goqueue.model.groups.overview import GroupPosition
from goqueue.model.log import PageRequest
from goqueue.model.names import NodeId
from goqueue.model.records import NewRecord
from goqueue.model.topics import OFFSETS_TOPIC
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import CommitGroup, GroupMember, GroupOutcome
from goqueue.model.transactions.group_names import member_id
from goqueue.model.transactions.messages import (
    InitProducerId,
    ListTransactions,
    ProducerIdentity,
    TransactionDescription,
)
from goqueue.model.transactions.refusals import TransactionRefused
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

NAME = "shop-1"


async def started(nodes: Nodes, **settings: str) -> list[RunningNode]:
    """Each broker leads one of three partitions."""
    all_ = await nodes.start(1, 2, 3, **settings)
    await nodes.make_topic(3, config={"min.insync.replicas": "1"})
    for index in range(3):
        await nodes.until_in_sync(1, 2, 3, index=index)
    return all_


async def init(node: RunningNode, name: str | None = NAME) -> ProducerIdentity:
    request = InitProducerId(transactional_id=name, timeout_ms=60_000)
    answer = await node.service.producers.init(ANYONE, request)
    return ProducerIdentity(name or "", answer.producer_id, answer.producer_epoch)


async def publish(node: RunningNode, producer: ProducerIdentity, *values: bytes) -> None:
    """One to each partition."""
    records = [NewRecord(value=value) for value in values]
    stored = await node.service.producers.publish(
        ANYONE, producer, TOPIC, records, list(range(len(records))), sequence=None
    )
    assert len(stored) == len(values)


async def committed(node: RunningNode, index: int) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while True:
        wanted = PageRequest(offset=offset, limit=100, max_bytes=1_000_000)
        page = await node.service.log.read_page(ANYONE, TOPIC, index, wanted)
        found += [record.value or b"" for record in page.records]
        if page.next_offset == offset:
            return found
        offset = page.next_offset


def following(ended: TransactionDescription) -> ProducerIdentity:
    return ProducerIdentity(ended.transactional_id, ended.producer_id, ended.producer_epoch)


def coordinator(nodes: Nodes) -> RunningNode:
    for node in nodes.running.values():
        hosted = node.node.hosted.get(STATE_TOPIC, 0)
        if hosted is not None and hosted.led is not None:
            return node
    raise AssertionError("there is none")


@with_nodes
async def test_the_first_commit_of_all_waits_for_those_who_have_not_heard_of_its_topic(
    nodes: Nodes,
) -> None:
    all_ = await started(nodes)
    producer = await init(all_[0])
    await all_[0].service.producers.begin(ANYONE, producer)
    late = coordinator(nodes)
    others = [node for node in all_ if node is not late]
    # It takes no news meanwhile.
    async with late.node._follower._applying:
        committing = asyncio.create_task(commit_offset(others[0], producer, 7))
        await nodes.until(lambda: all(OFFSETS_TOPIC in each.node.image.topics for each in others))
        done, _ = await asyncio.wait([committing], timeout=0.2)
        assert not done
    await committing
    await all_[0].service.producers.end(ANYONE, producer, commit=True)
    [position] = await positions(others[1])
    assert position.committed_offset == 7


async def commit_offset(node: RunningNode, producer: ProducerIdentity, offset: int) -> None:
    offsets = TxnOffsetCommit(
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        offsets=(OffsetToCommit(topic=TOPIC, partition=0, offset=offset),),
    )
    await node.service.producers.commit_offsets(ANYONE, producer, offsets)


async def positions(node: RunningNode) -> Sequence[GroupPosition]:
    seen = await node.service.groups.overview(ANYONE, "g")
    return await node.service.groups.positions(ANYONE, seen)


@with_nodes
async def test_each_step_of_a_transaction_is_asked_of_another_broker(nodes: Nodes) -> None:
    one, two, _ = all_ = await started(nodes)
    producer = await init(one)
    for number, commit in enumerate((True, False, True)):
        first, second, third = all_[number:] + all_[:number]
        await first.service.producers.begin(ANYONE, producer)
        await publish(second, producer, b"a%d" % number, b"b%d" % number, b"c%d" % number)
        await commit_offset(third, producer, number)
        described = await first.service.producers.describe(ANYONE, producer)
        assert len(described.partitions) == 4
        for node in all_:
            assert b"a%d" % number not in await committed(node, 0)
        ended = await third.service.producers.end(ANYONE, producer, commit=commit)
        # Repeating it gives the same answer, wherever it is asked for.
        assert await second.service.producers.end(ANYONE, producer, commit=commit) == ended
        producer = following(ended)
    for node in all_:
        assert await committed(node, 0) == [b"a0", b"a2"]
        assert await committed(node, 2) == [b"c0", b"c2"]
    [position] = await positions(two)
    assert position.committed_offset == 2


@with_nodes
async def test_a_transaction_outlives_its_coordinator(nodes: Nodes) -> None:
    all_ = await started(nodes)
    producer = await init(all_[0])
    await all_[1].service.producers.begin(ANYONE, producer)
    await publish(all_[2], producer, b"a", b"b", b"c")
    lost = coordinator(nodes)
    await nodes.die(lost.id)
    left = [node for node in all_ if node is not lost]
    await publish(left[0], producer, b"d", b"e", b"f")
    ended = await left[1].service.producers.end(ANYONE, producer, commit=True)
    assert ended.state == "CompleteCommit"
    for node in left:
        assert await committed(node, 0) == [b"a", b"d"]
        assert await committed(node, 1) == [b"b", b"e"]
    with pytest.raises(TransactionRefused) as refused:
        await publish(left[0], producer, b"late")
    assert refused.value.error is TransactionError.PRODUCER_FENCED


@with_nodes
async def test_sequences_are_given_out_by_the_leader(nodes: Nodes) -> None:
    all_ = await started(nodes)
    producer = await init(all_[2], None)

    async def send(node: RunningNode, value: bytes, sequence: int | None = None) -> int:
        [stored] = await node.service.producers.publish_idempotent(
            ANYONE,
            producer.producer_id,
            producer.producer_epoch,
            TOPIC,
            [NewRecord(value=value)],
            [0],
            sequence=sequence,
        )
        return stored.offset

    values = [b"%d" % number for number in range(30)]
    offsets = await asyncio.gather(
        *(send(all_[number % 3], value) for number, value in enumerate(values))
    )
    assert sorted(offsets) == list(range(30))
    assert sorted(await committed(all_[1], 0)) == sorted(values)
    # With its place in the sequence it is stored once, whoever is asked.
    assert {await send(node, b"x", sequence=30) for node in all_} == {30}
    lost = nodes.leader(0)
    assert lost is not None
    await nodes.die(lost.id)
    left = [node for node in all_ if node is not lost]
    assert {await send(node, b"x", sequence=30) for node in left} == {30}
    assert await send(left[0], b"y", sequence=31) == 31


@with_nodes
async def test_transactions_that_end_together_do_so_at_any_broker(nodes: Nodes) -> None:
    one, two, three = await started(nodes)
    producers = [await init(node, member_id("q", name)) for node, name in ((one, "a"), (two, "b"))]
    for producer in producers:
        await three.service.producers.begin(ANYONE, producer)
        await publish(one, producer, producer.transactional_id.encode())
    assert (await two.service.transactions.renew_group(ANYONE, "q")).open_members == 2
    request = CommitGroup(
        group_id="q", sequence=7, members=tuple(GroupMember(*each) for each in producers)
    )
    answers = [
        (await node.service.transactions.commit_group(ANYONE, request)).outcome
        for node in (three, one)
    ]
    assert answers == [GroupOutcome.COMMITTED, GroupOutcome.ALREADY_COMMITTED]
    lost = coordinator(nodes)
    await nodes.die(lost.id)
    for node in nodes.running.values():
        found = await node.service.transactions.describe_group(ANYONE, "q")
        assert (found.last_sequence, found.open_members) == (7, ())
        assert len(await committed(node, 0)) == 2


@with_nodes
async def test_transactions_of_all_brokers_are_listed(nodes: Nodes) -> None:
    one, two, three = all_ = await started(nodes, transaction__state__log__num__partitions="6")
    names = sorted(f"t{number}" for number in range(12))
    for name in names:
        producer = await init(two, name)
    await one.service.producers.begin(ANYONE, producer)
    for node in all_:
        found = await node.service.transactions.describe_listed(ANYONE, ListTransactions(), 5)
        assert [each.transactional_id for each in found.transactions] == names[:5]
        assert (found.total, found.unanswered) == (12, [])
        figures = await node.service.transactions.statistics(ANYONE)
        assert (figures.total, figures.open) == (12, 1)
        assert figures.oldest_open_ms is not None
        # As Kafka's clients ask, who ask all brokers.
        local = await node.service.transactions.list(ANYONE, ListTransactions())
        assert 0 < len(local.transactions) < 12

    async def fail(_: object) -> Any:
        raise GoQueueError("not today")

    one.node.calls.serve(LIST, fail)
    found = await three.service.transactions.describe_listed(ANYONE, ListTransactions(), 100)
    assert found.unanswered == [(NodeId(1), "not today")]
    assert 0 < found.total < 12
