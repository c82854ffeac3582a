"""Queue readers behind many offsets that are no messages: aborted, control, expired, compacted."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.queues import receiving
from goqueue.broker.queues.reading import Messages
from goqueue.model.batch import read_header
from goqueue.model.batch_editing import without_records
from goqueue.model.control import Marker, MarkerType
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues
from tests.unit.broker.conftest import OpenBroker

GAP = 5_000
# An hour: who waits for an append instead of going on never gets there.
LONG_WAIT_MS = 3_600_000
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes its time."""
    monkeypatch.setattr(receiving, "OVERTIME_SECONDS", PATIENCE_S)


async def make_topic(node: Node, *, partitions: int = 1) -> None:
    await BrokerService(node).topics.create(ANYONE, NewTopic(name="t", partitions=partitions))
    await open_queues(node, "g", "t")


def append_aborted(node: Node, count: int, *, batches: int) -> None:
    """A transaction of `count` messages in so many batches that comes to nothing."""
    partition = node.partition("t", 0)
    for number in range(batches):
        values = [b"%d" % n for n in range(count // batches)]
        append_now(
            partition,
            encode_records(
                [NewRecord(key=b"a", value=value) for value in values],
                now_ms=1_700_000_000_000,
                is_transactional=True,
                producer_id=1,
                producer_epoch=0,
                base_sequence=number * len(values),
            ),
        )
    partition.append_marker(
        Marker(MarkerType.ABORT, 0), producer_id=1, producer_epoch=0, bumps_epoch=False
    )


async def take(node: Node, limit: int = 1, **options: Any) -> list[Delivery]:
    request = Receive(max_messages=limit, **options)
    async with asyncio.timeout(PATIENCE_S):
        return await BrokerService(node).queues.receive(ANYONE, "g", "t", request)


async def settle(node: Node, found: Sequence[Delivery], action: AckAction) -> None:
    wanted = settle_all([each.receipt for each in found], action)
    await BrokerService(node).queues.settle(ANYONE, "g", wanted)


def values(found: Sequence[Delivery]) -> list[bytes | None]:
    return [each.record.value for each in found]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("wait_ms", [0, LONG_WAIT_MS])
@pytest.mark.parametrize("batches", [1, GAP])
def test_aborted_messages_are_passed_over(
    open_broker: OpenBroker, batches: int, wait_ms: int, in_order: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            append_aborted(node, GAP, batches=batches)
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            found = await take(node, wait_ms=wait_ms, in_order=in_order)
            assert values(found) == [b"found"]

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("wait_ms", [0, LONG_WAIT_MS])
def test_expired_messages_are_passed_over(
    open_broker: OpenBroker, wait_ms: int, in_order: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            ttl = (("goqueue-ttl-ms", b"0"),)
            stale = [NewRecord(key=b"a", value=b"stale", headers=ttl) for _ in range(GAP)]
            await publish(node, "t", stale)
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            found = await take(node, wait_ms=wait_ms, in_order=in_order)
            assert values(found) == [b"found"]

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_control_batches_between_messages_are_passed_over(
    open_broker: OpenBroker, in_order: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            for _ in range(500):
                node.partition("t", 0).append_marker(
                    Marker(MarkerType.COMMIT, 0),
                    producer_id=1,
                    producer_epoch=0,
                    bumps_epoch=False,
                )
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            assert values(await take(node, in_order=in_order)) == [b"found"]

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_a_reader_that_has_worked_enough_comes_back_and_the_next_goes_on(
    open_broker: OpenBroker, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "LOOKS_MAX", 2)
    monkeypatch.setattr(receiving, "LOOK_RECORDS", 100)

    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            ttl = (("goqueue-ttl-ms", b"0"),)
            stale = [NewRecord(key=b"a", value=b"stale", headers=ttl) for _ in range(1_000)]
            await publish(node, "t", stale)
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            polls = 0
            found: list[Delivery] = []
            while not found:
                polls += 1
                found = await take(node, wait_ms=LONG_WAIT_MS, in_order=in_order)
            assert values(found) == [b"found"]
            assert 2 < polls < 20

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_reader_whose_time_is_over_comes_back_and_the_next_goes_on(
    open_broker: OpenBroker, partitions: int, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "OVERTIME_SECONDS", 0)
    monkeypatch.setattr(receiving, "LOOK_RECORDS", 50)
    looks, seconds = 0, 0

    async def scenario() -> None:
        nonlocal looks
        async with open_broker() as node:
            await make_topic(node, partitions=partitions)
            ttl = (("goqueue-ttl-ms", b"0"),)
            for index in range(partitions):
                stale = [NewRecord(key=b"a", value=b"stale", headers=ttl) for _ in range(1_000)]
                await publish(node, "t", stale, partition=index)
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")], partition=0)
            loop = asyncio.get_running_loop()
            read, time = node.queues.receiving.reader.read, loop.time
            monkeypatch.setattr(loop, "time", lambda: time() + seconds)

            async def slow_read(*args: Any, **options: Any) -> Messages:
                nonlocal looks, seconds
                looks += 1
                seconds += 1
                return await read(*args, **options)

            monkeypatch.setattr(node.queues.receiving.reader, "read", slow_read)
            polls = 0
            found: list[Delivery] = []
            while not found:
                polls += 1
                looks = 0
                found = await take(node, wait_ms=500, in_order=in_order)
                # Two at the one that is late, and one at each partition with nothing in it.
                assert looks <= 2 + partitions
            assert values(found) == [b"found"]
            assert polls > 10

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_a_slow_reader_with_no_time_gets_what_is_there(
    open_broker: OpenBroker, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "OVERTIME_SECONDS", 0)

    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node, partitions=3)
            for index in range(3):
                await publish(node, "t", [NewRecord(key=b"k", value=b"found")], partition=index)
            assert values(await take(node, 3, in_order=in_order)) == [b"found"] * 3

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_who_must_know_that_nothing_is_left_goes_on(
    open_broker: OpenBroker, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "LOOKS_MAX", 1)
    monkeypatch.setattr(receiving, "LOOK_RECORDS", 100)

    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            ttl = (("goqueue-ttl-ms", b"0"),)
            stale = [NewRecord(key=b"a", value=b"stale", headers=ttl) for _ in range(1_000)]
            await publish(node, "t", stale)
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            assert await take(node, in_order=in_order) == []
            found = await take(node, in_order=in_order, until_empty=True)
            assert values(found) == [b"found"]

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_behind_what_is_no_message_a_reader_waits_for_the_next(
    open_broker: OpenBroker, in_order: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            append_aborted(node, GAP, batches=10)
            taking = asyncio.create_task(take(node, wait_ms=LONG_WAIT_MS, in_order=in_order))
            while not node.queues.lines._lines:
                await asyncio.sleep(0)
            await publish(node, "t", [NewRecord(key=b"k", value=b"later")])
            assert values(await taking) == [b"later"]

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_a_gap_of_two_thousand_million_offsets_is_one_step(
    open_broker: OpenBroker, in_order: bool
) -> None:
    """As compaction leaves it in long: a batch that covers offsets and has no records."""

    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            partition = node.partition("t", 0)
            batch = encode_records([NewRecord(value=b"")], now_ms=1)
            header = read_header(batch)._replace(last_offset_delta=2_000_000_000 - 1)
            partition.append_own(bytearray(without_records(header)))
            await publish(node, "t", [NewRecord(key=b"k", value=b"found")])
            assert values(await take(node, in_order=in_order)) == [b"found"]

    asyncio.run(scenario())


def test_other_groups_behind_many_messages_of_one_that_is_out_are_delivered(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            await publish(node, "t", [NewRecord(key=b"busy", value=b"1")])
            [first] = await take(node, in_order=True)
            for _ in range(10):
                rest = [NewRecord(key=b"busy", value=b"x" * 1_000) for _ in range(GAP // 10)]
                await publish(node, "t", rest)
            await publish(node, "t", [NewRecord(key=b"free", value=b"found")])
            assert values(await take(node, in_order=True)) == [b"found"]
            assert await take(node, in_order=True) == []
            await settle(node, [first], AckAction.ACCEPT)
            assert values(await take(node, in_order=True)) == [b"x" * 1_000]

    asyncio.run(scenario())
