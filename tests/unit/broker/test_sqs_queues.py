"""Queues of SQS and move tasks through the doorway: rights, lists, changes at the same time."""

import asyncio
import json
from collections.abc import Awaitable

import pytest

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import TopicAccessDenied
from goqueue.model.queues.moves import MoveStatus, NewMove, UnknownOrigin
from goqueue.model.queues.policies import Permission
from goqueue.model.records import NewRecord
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker

ARN = "arn:aws:sqs:us-east-1:000000000000:"


class Without:
    """Everything is allowed but these verbs on topics of these names."""

    def __init__(self, *denied: tuple[str, Verb]) -> None:
        self._denied = denied

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        if resource is Resource.CLUSTER and verb is Verb.CREATE:
            return False
        return resource is not Resource.TOPIC or (name, verb) not in self._denied


def redrive(target: str) -> dict[str, str]:
    policy = {"deadLetterTargetArn": ARN + target, "maxReceiveCount": 1}
    return {"RedrivePolicy": json.dumps(policy)}


async def denied(work: Awaitable[object], broker: Node) -> None:
    """Refused, and nothing is changed."""
    before = (dict(broker.image.topics), dict(broker.image.door_entries))
    with pytest.raises(TopicAccessDenied):
        await work
    assert (dict(broker.image.topics), dict(broker.image.door_entries)) == before


def test_a_topic_made_elsewhere_is_changed_by_those_who_may(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="made"))
            queues = BrokerService(broker, Without(("made", Verb.ALTER_CONFIGS))).sqs_queues
            await denied(queues.create(ANYONE, "made", {"VisibilityTimeout": "5"}, {}), broker)
            await queues.create(ANYONE, "new", {"VisibilityTimeout": "5"}, {})
            # Asked for again, with the same attributes, it is the same queue.
            await queues.create(ANYONE, "new", {"VisibilityTimeout": "5"}, {})
            everyone = BrokerService(broker).sqs_queues
            made = await everyone.create(ANYONE, "made", {"VisibilityTimeout": "5"}, {})
            assert made.attributes["VisibilityTimeout"] == "5"

    asyncio.run(run())


def test_who_says_where_dead_letters_go_must_be_allowed_to_write_there(
    open_broker: OpenBroker,
) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).sqs_queues.create(ANYONE, "theirs", {}, {})
            queues = BrokerService(broker, Without(("theirs", Verb.WRITE))).sqs_queues
            await denied(queues.create(ANYONE, "mine", redrive("theirs"), {}), broker)
            await queues.create(ANYONE, "mine", {}, {})
            await denied(queues.set_attributes(ANYONE, "mine", redrive("theirs")), broker)

    asyncio.run(run())


def test_lists_leave_out_what_the_caller_may_not_see(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            everyone = BrokerService(broker).sqs_queues
            for name, attributes in (
                ("dead", {}),
                ("seen", redrive("dead")),
                ("hidden", redrive("dead")),
            ):
                await everyone.create(ANYONE, name, attributes, {})
            queues = BrokerService(broker, Without(("hidden", Verb.DESCRIBE))).sqs_queues
            assert queues.names(ANYONE) == ["dead", "seen"]
            assert queues.sources_of(ANYONE, "dead") == ["seen"]
            assert everyone.sources_of(ANYONE, "dead") == ["hidden", "seen"]

    asyncio.run(run())


def test_messages_are_moved_only_to_where_the_caller_may_write(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            everyone = BrokerService(broker).sqs_queues
            await everyone.create(ANYONE, "dead", {}, {})
            await everyone.create(ANYONE, "source", redrive("dead"), {})
            back = NewMove("dead", ARN + "dead", None, None, None)
            there = NewMove("dead", ARN + "dead", "source", ARN + "source", None)
            for new in (back, there):
                moves = BrokerService(broker, Without(("source", Verb.WRITE))).moves
                await denied(moves.start(ANYONE, new), broker)
                moves = BrokerService(broker, Without(("dead", Verb.READ))).moves
                await denied(moves.start(ANYONE, new), broker)

    asyncio.run(run())


@pytest.mark.parametrize("named", ["victim", None])
def test_messages_are_moved_back_only_to_where_dead_letters_come_from(
    open_broker: OpenBroker, named: str | None
) -> None:
    """Any producer may write the header that says where a message came from."""

    async def run() -> None:
        async with open_broker() as broker:
            service = BrokerService(broker)
            for name, attributes in (
                ("dead", {}),
                ("source", redrive("dead")),
                ("victim", {}),
            ):
                await service.sqs_queues.create(ANYONE, name, attributes, {})
            said = () if named is None else (("goqueue-dlq-topic", named.encode()),)
            await publish(broker, "dead", [NewRecord(value=b"forged", headers=said)])
            await service.moves.start(ANYONE, NewMove("dead", ARN + "dead", None, None, None))
            async with asyncio.timeout(30):
                while True:
                    [task] = await service.moves.list_tasks(ANYONE, "dead")
                    if task.status is not MoveStatus.RUNNING:
                        break
                    await asyncio.sleep(0.005)
            assert (task.status, task.failure) == (MoveStatus.FAILED, UnknownOrigin.code)
            for name in ("victim", "source"):
                for part in broker.topic(name).partitions:
                    assert broker.partition(name, part.index).high_watermark == 0

    asyncio.run(run())


def test_changes_at_the_same_time_are_all_kept(open_broker: OpenBroker) -> None:
    """As two brokers would make them: nothing but the metadata store is shared."""

    async def run() -> None:
        async with open_broker() as broker:
            queues = BrokerService(broker).sqs_queues
            await queues.create(ANYONE, "q", {}, {"first": "0"})
            await asyncio.gather(
                *(queues.set_tags(ANYONE, "q", {f"tag-{n}": str(n)}) for n in range(5)),
                *(
                    queues.add_permission(
                        ANYONE, "q", ARN + "q", Permission(f"label-{n}", ["1"], ["SendMessage"])
                    )
                    for n in range(5)
                ),
                queues.set_tags(ANYONE, "q", {"first": None}),
            )
            queue = queues.find(ANYONE, "q")
            assert queue.tags == {f"tag-{n}": str(n) for n in range(5)}
            policy = json.loads(queue.attributes["Policy"])
            assert {each["Sid"] for each in policy["Statement"]} == {f"label-{n}" for n in range(5)}

    asyncio.run(run())
