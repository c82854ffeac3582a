"""Queues with rules switched on: nothing is taken, settled or told without the rights for it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.model.caller import ANONYMOUS
from goqueue.model.errors import AccessDenied, GroupAccessDenied, TopicAccessDenied
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.queues.queues import QueueService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.rules import Grant, Granted, group, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

RECEIVE = Receive(max_messages=10, start="earliest")
READING = (group("workers", Verb.READ), topic("jobs", Verb.READ))
LETTER = NewRecord(value=b"dead", headers=(("goqueue-dlq-topic", b"others"),))


def with_rights(node: Node, *grants: Grant) -> QueueService:
    return BrokerService(node, Granted(*grants)).queues


async def fill(node: Node) -> list[Delivery]:
    """A message in flight, and a dead letter of another topic."""
    for name in ("jobs", "others", "jobs.dlq"):
        await BrokerService(node).topics.create(ANYONE, NewTopic(name=name, partitions=1))
    await publish(node, "jobs", [NewRecord(value=b"canary")])
    await publish(node, "jobs.dlq", [LETTER])
    return await BrokerService(node).queues.receive(ANYONE, "workers", "jobs", RECEIVE)


def settle(queues: QueueService, receipt: Receipt) -> Awaitable[Any]:
    return queues.settle(ANYONE, "workers", settle_all([receipt], AckAction.ACCEPT))


Ask = Callable[[QueueService, Receipt], Awaitable[Any]]

OPERATIONS: dict[str, tuple[Ask, tuple[Grant, ...]]] = {
    "receive": (lambda queues, _: queues.receive(ANYONE, "workers", "jobs", RECEIVE), READING),
    "settle": (settle, READING),
    "describe": (
        lambda queues, _: queues.describe(ANYONE, "workers", "jobs"),
        (group("workers", Verb.DESCRIBE), topic("jobs", Verb.DESCRIBE)),
    ),
    "dead letters": (
        lambda queues, _: queues.dead_letters(ANYONE, "jobs", limit=10),
        (topic("jobs", Verb.READ), topic("jobs.dlq", Verb.READ)),
    ),
    "redrive": (
        lambda queues, _: queues.redrive(ANYONE, "jobs"),
        (topic("jobs", Verb.WRITE), topic("jobs.dlq", Verb.READ)),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_needs_each_of_its_rights(open_broker: OpenBroker, name: str) -> None:
    ask, needed = OPERATIONS[name]
    async with open_broker() as node:
        [delivery] = await fill(node)
        before = await BrokerService(node).queues.describe(ANYONE, "workers", "jobs")
        for missing in needed:
            queues = with_rights(node, *(grant for grant in needed if grant != missing))
            with pytest.raises(AccessDenied, match=missing[1]):
                await ask(queues, delivery.receipt)
        assert await BrokerService(node).queues.describe(ANYONE, "workers", "jobs") == before
        await ask(with_rights(node, *needed), delivery.receipt)


async def test_a_refusal_does_not_tell_whether_there_is_such_a_topic(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        await fill(node)
        queues = with_rights(node, group("workers", Verb.READ))
        for name in ("jobs", "nope"):
            with pytest.raises(TopicAccessDenied):
                await queues.receive(ANYONE, "workers", name, RECEIVE)
            with pytest.raises(TopicAccessDenied):
                await queues.redrive(ANYONE, name)
        with pytest.raises(GroupAccessDenied):
            await queues.receive(ANYONE, "strangers", "nope", RECEIVE)


async def test_one_topic_that_may_not_be_read_refuses_all_receipts(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        [delivery] = await fill(node)
        receipts = [delivery.receipt, Receipt("others", 0, 0, 1, 7)]
        queues = with_rights(node, *READING)
        with pytest.raises(TopicAccessDenied, match="others"):
            await queues.settle(ANYONE, "workers", settle_all(receipts, AckAction.ACCEPT))
        assert await settle(queues, delivery.receipt) == [QueueError.NONE]


async def test_figures_show_what_the_caller_may_see(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        assert (await with_rights(node).describe_all(ANYONE)).queues == []
        one = topic("jobs", Verb.DESCRIBE)
        assert (await with_rights(node, one).describe_all(ANYONE)).queues == []
        [found] = (
            await with_rights(node, one, group("workers", Verb.DESCRIBE)).describe_all(ANYONE)
        ).queues
        assert (found.topic, found.queue.in_flight) == ("jobs", 1)


async def test_a_dead_letter_does_not_open_a_topic_that_may_not_be_written(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        await fill(node)
        target = "arn:aws:sqs:us-east-1:000000000000:jobs.dlq"
        policy = f'{{"deadLetterTargetArn": "{target}", "maxReceiveCount": 1}}'
        await BrokerService(node).sqs_queues.set_attributes(
            ANYONE, "others", {"RedrivePolicy": policy}
        )
        rights = (topic("jobs", Verb.WRITE), topic("jobs.dlq", Verb.READ))
        assert await with_rights(node, *rights).redrive(ANYONE, "jobs") == (0, 1, 0)
        assert node.partition("others", 0).high_watermark == 0
        allowed = with_rights(node, *rights, topic("others", Verb.WRITE))
        assert await allowed.redrive(ANYONE, "jobs") == (1, 0, 0)
        assert node.partition("others", 0).high_watermark == 1


async def test_dead_letters_of_a_tenant_have_its_own_names_in_them(
    open_broker: OpenBroker,
) -> None:
    anne = replace(ANYONE, principal=ANONYMOUS._replace(tenant="acme"))
    async with open_broker() as node:
        service = BrokerService(node)
        await service.topics.create(anne, NewTopic(name="acme@jobs", partitions=1))
        await service.publishing.publish(anne, "acme@jobs", [NewRecord(value=b"dead")])
        [delivery] = await service.queues.receive(anne, "acme@workers", "acme@jobs", RECEIVE)
        rejected = settle_all([delivery.receipt], AckAction.REJECT)
        await service.queues.settle(anne, "acme@workers", rejected)
        while not (letters := await service.queues.dead_letters(anne, "acme@jobs", limit=1)):
            await asyncio.sleep(0.005)
        told = b" ".join(value or b"" for _, value in letters[0].record.headers)
        assert b"workers" in told
        assert b"acme" not in told
