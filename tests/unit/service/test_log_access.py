"""The log with rules switched on: nothing is stored, read or told without the right for it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.errors import TopicAccessDenied, TransactionalIdAccessDenied, UnknownTopic
from goqueue.model.header_names import DELAY_MS
from goqueue.model.log import FetchPart, Isolation, PageRequest
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import Verb
from goqueue.model.security.tenants import inner_name
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.log import LogService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.rules import Grant, Granted, cluster, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

BATCH = encode_records([NewRecord(value=b"new")], now_ms=1_700_000_000_000)
PAGE = PageRequest(limit=10, max_bytes=1_000)


def with_rights(node: Node, *grants: Grant) -> LogService:
    return BrokerService(node, Granted(*grants)).log


async def fill(node: Node) -> None:
    for name in ("mine", "others"):
        await BrokerService(node).topics.create(ANYONE, NewTopic(name=name, partitions=1))
        await publish(node, name, [NewRecord(value=b"canary")])


async def end_of_epoch(log: LogService, name: str) -> object:
    return log.offset_for_leader_epoch(ANYONE, name, 0, 0, current_epoch=-1)


async def producers(log: LogService, name: str) -> object:
    return log.producers(ANYONE, name, 0)


async def produce(log: LogService, name: str) -> object:
    return await log.produce(ANYONE, name, 0, BATCH, acks=-1, timeout_ms=5_000)


Ask = Callable[[LogService, str], Awaitable[Any]]

OPERATIONS: dict[str, tuple[Ask, Verb]] = {
    "produce": (produce, Verb.WRITE),
    "read_page": (lambda log, name: log.read_page(ANYONE, name, 0, PAGE), Verb.READ),
    "list_offset": (lambda log, name: log.list_offset(ANYONE, name, 0, -1), Verb.DESCRIBE),
    "end_of_epoch": (end_of_epoch, Verb.DESCRIBE),
    "delete_records": (lambda log, name: log.delete_records(ANYONE, name, 0, 1), Verb.DELETE),
    "producers": (producers, Verb.READ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_operation_needs_its_right_on_its_topic(
    open_broker: OpenBroker, operation: str
) -> None:
    ask, verb = OPERATIONS[operation]
    others = {each for each in Verb if each is not verb}
    async with open_broker() as node:
        await fill(node)
        log = with_rights(node, *(topic("mine", other) for other in others), topic("others", verb))
        with pytest.raises(TopicAccessDenied):
            await ask(log, "mine")
        partition = node.partition("mine", 0)
        assert (partition.log_start_offset, partition.log_end_offset) == (0, 1)

        await ask(with_rights(node, topic("mine", verb)), "mine")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_whoever_may_not_does_not_learn_whether_there_is_a_topic(
    open_broker: OpenBroker, operation: str
) -> None:
    ask, verb = OPERATIONS[operation]
    async with open_broker() as node:
        with pytest.raises(TopicAccessDenied):
            await ask(with_rights(node), "missing")
        with pytest.raises(UnknownTopic):
            await ask(with_rights(node, topic("missing", verb)), "missing")


async def test_a_transactional_id_is_asked_for_as_well(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        with pytest.raises(TransactionalIdAccessDenied):
            await with_rights(node, topic("mine", Verb.WRITE)).produce(
                ANYONE, "mine", 0, BATCH, acks=-1, timeout_ms=5_000, transactional_id="x"
            )
        assert node.partition("mine", 0).log_end_offset == 1


@pytest.mark.parametrize("refused_first", [True, False])
async def test_parts_of_a_fetch_are_refused_one_by_one_in_their_order(
    open_broker: OpenBroker, refused_first: bool
) -> None:
    async with open_broker() as node:
        await fill(node)
        names = ["others", "mine", "others"] if refused_first else ["mine", "others"]
        fetched = await with_rights(node, topic("mine", Verb.READ)).fetch(
            ANYONE,
            [FetchPart(name, 0, 0, 1_000) for name in names],
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=10_000,
            isolation=Isolation.READ_UNCOMMITTED,
        )
        assert [part.topic for part in fetched] == names
        for part in fetched:
            is_mine = part.topic == "mine"
            assert isinstance(part.error, TopicAccessDenied) != is_mine
            assert bool(part.data) == is_mine


@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_what_waits_for_a_topic_is_read_with_the_right_to_the_topic(
    open_broker: OpenBroker, tenant: str
) -> None:
    reader = Caller(principal=ANONYMOUS, door=Door.KAFKA)
    name = inner_name(tenant, "mine")
    async with open_broker() as node:
        owner = replace(ANYONE, principal=ANONYMOUS._replace(tenant=tenant))
        service = BrokerService(node)
        await service.topics.create(owner, NewTopic(name=name, partitions=1))
        delayed = NewRecord(value=b"canary", headers=((DELAY_MS, b"60000"),))
        await service.publishing.publish(owner, name, [delayed])
        waiting = companion_of(DELAYED, node.image.topics[name].id)
        every = [topic(each, Verb.READ) for each in (waiting, "others", "missing")]
        with pytest.raises(TopicAccessDenied):
            with_rights(node, *every).producers(reader, waiting, 0)
        copying = with_rights(node, *every, cluster(Verb.CLUSTER_ACTION))
        assert copying.producers(reader, waiting, 0) == []

        reading = with_rights(node, *every, topic("mine", Verb.READ), topic(name, Verb.READ))
        if tenant:
            with pytest.raises(TopicAccessDenied):
                reading.producers(reader, waiting, 0)
        else:
            assert reading.producers(reader, waiting, 0) == []
