"""Message groups of FIFO queues: what a receive takes, and what holds a group back.

As AWS's own service does it, which LocalStack's suite was validated against
(`test_fifo_message_group_visibility_after_…`, `test_fifo_receive_message_group_id_ordering`).
"""

import asyncio
from collections.abc import Sequence

from goqueue.broker.node import Node
from goqueue.broker.queues.receiving import RECEIVE_BYTES
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues
from tests.unit.broker.conftest import OpenBroker


async def make_queue(node: Node, *names: str) -> None:
    """With messages `g1-m1` of group g1, and so on."""
    await BrokerService(node).topics.create(ANYONE, NewTopic(name="t", partitions=1, config={}))
    await open_queues(node, "g", "t")
    records = [NewRecord(key=name[:2].encode(), value=name.encode()) for name in names]
    await publish(node, "t", records)


async def take(node: Node, limit: int) -> list[Delivery]:
    request = Receive(max_messages=limit, in_order=True)
    return await BrokerService(node).queues.receive(ANYONE, "g", "t", request)


async def settle(node: Node, found: Sequence[Delivery], action: AckAction) -> None:
    wanted = settle_all([each.receipt for each in found], action)
    await BrokerService(node).queues.settle(ANYONE, "g", wanted)


def names(found: Sequence[Delivery]) -> list[str]:
    return [(each.record.value or b"").decode() for each in found]


def test_what_came_back_is_delivered_although_a_later_one_is_out(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_queue(node, "g1-m1", "g1-m2", "g2-m1", "g1-m3")
            first, second = await take(node, 2)
            await settle(node, [first], AckAction.RELEASE)
            # The third of the group must wait for the second.
            assert sorted(names(await take(node, 3))) == ["g1-m1", "g2-m1"]
            assert await take(node, 3) == []
            await settle(node, [second], AckAction.ACCEPT)
            assert await take(node, 3) == []

    asyncio.run(scenario())


def test_what_came_back_waits_for_an_earlier_one_that_is_out(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_queue(node, "g1-m1", "g1-m2")
            first, second = await take(node, 2)
            await settle(node, [second], AckAction.RELEASE)
            assert await take(node, 2) == []
            await settle(node, [first], AckAction.ACCEPT)
            assert names(await take(node, 2)) == ["g1-m2"]

    asyncio.run(scenario())


def test_a_group_with_one_out_gives_nothing_new(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            await make_queue(node, "g1-m1", "g2-m1", "g1-m2", "g2-m2", "g1-m3", "g3-m1")
            first, second = await take(node, 2)
            assert names([first, second]) == ["g1-m1", "g1-m2"]
            await settle(node, [first], AckAction.ACCEPT)
            assert names(await take(node, 10)) == ["g2-m1", "g2-m2", "g3-m1"]

    asyncio.run(scenario())


def test_a_receive_gives_as_many_of_one_group_as_it_can(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as node:
            groups = [f"g{n}" for n in range(10)]
            sent = [f"{group}-m{n}" for n in range(20) for group in groups]
            await make_queue(node, *sent)
            assert names(await take(node, 10)) == [f"g0-m{n}" for n in range(10)]
            assert names(await take(node, 10)) == [f"g1-m{n}" for n in range(10)]

    asyncio.run(scenario())


def test_an_answer_ends_after_some_megabytes_and_the_rest_comes_next(
    open_broker: OpenBroker,
) -> None:
    large = b"x" * 900_000

    async def scenario() -> None:
        async with open_broker() as node:
            await make_queue(node, "g2-m1")
            await settle(node, await take(node, 1), AckAction.ACCEPT)
            records = [NewRecord(key=b"g1", value=large + b"%d" % n) for n in range(9)]
            for record in records:
                await publish(node, "t", [record])
            received: list[int] = []
            while found := await take(node, 9):
                assert sum(len(each.record.value or b"") for each in found) <= RECEIVE_BYTES
                received += [int((each.record.value or b"")[len(large) :]) for each in found]
                await settle(node, found, AckAction.ACCEPT)
            assert received == list(range(9))

    asyncio.run(scenario())
