"""Depths of queues count messages: what nobody can receive is left out, and nothing is zero."""

import asyncio

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.queues import gaps
from goqueue.model.control import Marker, MarkerType
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


async def make_topic(node: Node) -> None:
    await BrokerService(node).topics.create(ANYONE, NewTopic(name="t", partitions=1))
    await open_queues(node, "g", "t")


def transaction(node: Node, kind: MarkerType, count: int, *, producer_id: int) -> None:
    partition = node.partition("t", 0)
    for number in range(count):
        append_now(
            partition,
            encode_records(
                [NewRecord(value=b"m")],
                now_ms=1_700_000_000_000,
                is_transactional=True,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=number,
            ),
        )
    partition.append_marker(
        Marker(kind, 0), producer_id=producer_id, producer_epoch=0, bumps_epoch=False
    )


async def ready(node: Node) -> int:
    [found] = await BrokerService(node).queues.describe(ANYONE, "g", "t")
    return found.ready


async def scraped(node: Node) -> int:
    """As a scrape of the metrics sees it once it has looked."""
    shown = -1
    for _ in range(2):
        figures = await BrokerService(node).measuring.figures(ANYONE, groups_max=10, queues_max=10)
        [of_queue] = [each for name, each in figures.queues.queues.items() if name.group == "g"]
        shown = sum(of_queue.ready)
        while node.queues.registry._is_looking:
            await asyncio.sleep(0)
    return shown


async def take_all(node: Node) -> int:
    queues, count = BrokerService(node).queues, 0
    while found := await queues.receive(ANYONE, "g", "t", Receive(max_messages=7)):
        count += len(found)
        wanted = settle_all([each.receipt for each in found], AckAction.ACCEPT)
        await queues.settle(ANYONE, "g", wanted)
    return count


def test_aborted_messages_and_markers_do_not_count(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            for number in range(5):
                transaction(node, MarkerType.COMMIT, 10, producer_id=2 * number)
                transaction(node, MarkerType.ABORT, 10, producer_id=2 * number + 1)
            assert await ready(node) == 50
            transaction(node, MarkerType.ABORT, 10, producer_id=20)
            assert await ready(node) == 50
            assert await scraped(node) == 50
            assert await take_all(node) == 50
            assert await ready(node) == 0
            # Not even before anybody has tried to receive.
            transaction(node, MarkerType.ABORT, 10, producer_id=21)
            assert await scraped(node) == 0
            assert await ready(node) == 0

    asyncio.run(scenario())


def test_a_long_log_is_looked_through_bit_by_bit(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "READ_BYTES", 1)
    monkeypatch.setattr(gaps, "LOOK_BYTES", 1_000)

    async def scenario() -> None:
        async with open_broker() as node:
            await make_topic(node)
            transaction(node, MarkerType.ABORT, 100, producer_id=1)
            await publish(node, "t", [NewRecord(value=b"m")])
            shown = [await ready(node)]
            while shown[-1] > 1:
                shown.append(await ready(node))
                assert shown[-1] < shown[-2]
            assert len(shown) > 3

    asyncio.run(scenario())
