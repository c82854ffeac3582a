"""Move tasks last no longer than the rights of whoever started them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.node import Node
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import TopicAccessDenied
from goqueue.model.queues.moves import MoveStatus, MoveTask, NewMove
from goqueue.model.records import NewRecord
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Rule, RuleFilter
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALICE = Caller(principal=Principal("User", "alice"), door=Door.SQS)
ARN = "arn:aws:sqs:eu-west-1:000000000000:"
# One a second: none of these tests sees the last one moved.
LETTERS = 1_000
BACK = NewMove("dead", ARN + "dead", None, None, 1)
THERE = NewMove("dead", ARN + "dead", "other", ARN + "other", 1)
GIVEN = (("dead", Verb.READ), ("source", Verb.WRITE), ("other", Verb.WRITE))


class Place:
    """Dead letters, and alice, who may send them back."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.unbound = BrokerService(node, Everything())

    async def fill(self) -> None:
        queues = self.unbound.sqs_queues
        for name in ("dead", "other"):
            await queues.create(ANYONE, name, {}, {})
        policy = f'{{"deadLetterTargetArn":"{ARN}dead","maxReceiveCount":3}}'
        await queues.create(ANYONE, "source", {"RedrivePolicy": policy}, {})
        came_from = (("goqueue-dlq-topic", b"source"),)
        letters = [NewRecord(value=b"x", headers=came_from)] * LETTERS
        await self.unbound.publishing.publish(ANYONE, "dead", letters)
        await self.unbound.users.create(ANYONE, "alice", "alice's")
        for name, verb in GIVEN:
            await self.allow(name, verb)

    def open_service(self) -> BrokerService:
        """By which rules are asked from now on."""
        return BrokerService(self.node, self.node.security.rules)

    async def allow(self, name: str, verb: Verb) -> None:
        rule = Rule(resource=Resource.TOPIC, name=name, principal="User:alice", verb=verb)
        await self.unbound.rules.add(ANYONE, [rule])

    async def revoke(self, name: str) -> None:
        assert await self.unbound.rules.remove(ANYONE, [RuleFilter(name=name)])

    async def task(self) -> MoveTask:
        [task] = await self.unbound.moves.list_tasks(ANYONE, "dead")
        return task

    async def moved_more(self) -> None:
        """The task goes on."""
        before = (await self.task()).moved
        async with asyncio.timeout(60):
            while (await self.task()).moved == before:
                await asyncio.sleep(0.01)

    async def failed(self) -> None:
        async with asyncio.timeout(60):
            while (task := await self.task()).status is MoveStatus.RUNNING:
                await asyncio.sleep(0.01)
        assert (task.status, task.failure) == (MoveStatus.FAILED, TopicAccessDenied.code)
        counts = await self.unbound.sqs_queues.counts(ANYONE, "dead")
        assert counts.visible > 0 == counts.in_flight


class Everything:
    def allows(self, *_: object) -> bool:
        return True


async def lose_read(place: Place) -> None:
    await place.revoke("dead")


async def lose_write_to_source(place: Place) -> None:
    await place.revoke("source")


async def lose_write_to_other(place: Place) -> None:
    await place.revoke("other")


async def delete_user(place: Place) -> None:
    """Rules that name it stay."""
    await place.unbound.users.delete(ANYONE, "alice")


async def make_another_of_that_name(place: Place) -> None:
    await delete_user(place)
    first = place.node.clock_ms()
    while place.node.clock_ms() == first:
        await asyncio.sleep(0.001)
    await place.unbound.users.create(ANYONE, "alice", "somebody's")


@pytest.mark.parametrize(
    ("new", "lose"),
    [
        (BACK, lose_read),
        (BACK, lose_write_to_source),
        (BACK, delete_user),
        (BACK, make_another_of_that_name),
        (THERE, lose_read),
        (THERE, lose_write_to_other),
        (THERE, delete_user),
    ],
)
async def test_a_task_ends_with_a_right_that_it_needs(
    open_broker: OpenBroker, new: NewMove, lose: Callable[[Place], Awaitable[None]]
) -> None:
    async with open_broker() as node:
        place = Place(node)
        await place.fill()
        await place.open_service().moves.start(ALICE, new)
        await place.moved_more()
        await lose(place)
        await place.failed()


async def test_a_task_goes_on_while_others_lose_their_rights(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        place = Place(node)
        await place.fill()
        await place.open_service().moves.start(ALICE, BACK)
        await place.moved_more()
        await place.revoke("other")
        await place.moved_more()
        assert (await place.task()).status is MoveStatus.RUNNING


async def test_after_a_restart_nothing_is_moved_before_rules_are_known(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(security__enabled="true") as node:
        place = Place(node)
        await place.fill()
        await place.open_service().moves.start(ALICE, BACK)
        await place.moved_more()
        await place.revoke("source")
        # As if it had ended before the task could notice.
        node.moves.check = None
        assert (await place.task()).status is MoveStatus.RUNNING
    async with open_broker(security__enabled="true") as node:
        assert node.moves.check is None
        [task] = node.moves._tasks().running()
        running = node.moves._running[task.id]
        await asyncio.wait([running], timeout=0.05)
        assert not running.done()
        place = Place(node)
        place.open_service()
        await place.failed()
        assert (await place.task()).moved == task.moved


async def test_a_task_without_a_starter_goes_on(open_broker: OpenBroker) -> None:
    """Of an earlier release, or started while everybody might do everything."""
    async with open_broker() as node:
        place = Place(node)
        await place.fill()
        await BrokerService(node).moves.start(ANYONE, BACK)
        place.open_service()
        await place.revoke("source")
        await place.moved_more()
