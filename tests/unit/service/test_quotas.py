"""Quotas and limits of tenants, asked for by every service that uses something up."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.metadata.store import Put
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import TooManyGroups
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.log import PageRequest
from goqueue.model.queues.fifo import FifoMessage
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.share import ShareMember, SharePart
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import ConfigurableCluster
from goqueue.model.security.quotas import (
    LimitReached,
    QuotaChange,
    QuotaEntity,
    QuotaExceeded,
)
from goqueue.model.security.tenants import Tenant
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.groups.share_groups import NO_ROOM_WAIT_MS
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.queues import share_fetch

pytestmark = pytest.mark.anyio

ALICE = Caller(principal=Principal("User", "alice", "acme"), door=Door.HTTP)
ALICE_BY_KAFKA = Caller(principal=ALICE.principal, door=Door.KAFKA)
BIG, SMALL = [NewRecord(value=b"x" * 3_000)], [NewRecord(value=b"x")]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    opened = await Node.open(broker_config({"data.dir": str(tmp_path), "num.partitions": "1"}))
    yield opened
    await opened.close()


@pytest.fixture
async def service(node: Node) -> BrokerService:
    made = BrokerService(node)
    await made.topics.create(ANYONE, NewTopic(name="a"))
    await made.sqs_queues.create(ANYONE, "q.fifo", {"FifoQueue": "true"}, {})
    await made.publishing.publish(ANYONE, "a", BIG)
    await made.topics.create(ALICE, NewTopic(name="acme@a"))
    await made.sqs_queues.create(ALICE, "acme@q.fifo", {"FifoQueue": "true"}, {})
    await made.publishing.publish(ALICE, "acme@a", BIG)
    return made


async def limit(node: Node, **limits: float) -> None:
    tenant = Tenant(name="acme", limits=limits)
    entry = keys.security_entry(keys.SecurityKind.TENANT, "acme", tenant)
    await node.changes.change(entry.key, lambda _value: [Put(*entry)])


async def hold(node: Node, **values: float | None) -> None:
    change = QuotaChange(QuotaEntity(user="alice"), values)
    assert await node.quotas.alter(ConfigurableCluster("kafka-cluster"), [change]) == [None]


def fifo_message(size: int) -> FifoMessage:
    return FifoMessage("1", "g", "d", b"x" * size, (), 0)


async def test_who_has_published_too_much_is_refused_for_a_while(
    node: Node, service: BrokerService
) -> None:
    now_ms = 0.0
    node.quotas.now_ms = lambda: now_ms
    await hold(node, producer_byte_rate=1_000)
    await service.publishing.publish(ALICE, "acme@a", BIG)
    with pytest.raises(QuotaExceeded, match="producer_byte_rate") as caught:
        await service.publishing.publish(ALICE, "acme@a", SMALL)
    assert caught.value.retry_after_ms == 2_000
    with pytest.raises(QuotaExceeded):
        await service.fifo.send(ALICE, "acme@q.fifo", [fifo_message(1)])
    with pytest.raises(QuotaExceeded):
        await service.producers.publish_idempotent(
            ALICE, 1, 0, "acme@a", SMALL, [None], sequence=None
        )
    # Others go on, and Kafka's door counts for itself.
    await service.publishing.publish(ANYONE, "a", BIG)
    batch = bytes(encode_records(SMALL, now_ms=1_000))
    await service.log.produce(ALICE_BY_KAFKA, "acme@a", 0, batch, acks=1, timeout_ms=1_000)
    now_ms = 2_000.0
    await service.publishing.publish(ALICE, "acme@a", SMALL)


async def test_who_has_read_too_much_is_refused_for_a_while(
    node: Node, service: BrokerService
) -> None:
    await hold(node, consumer_byte_rate=1_000)
    page = PageRequest(offset=0, limit=10, max_bytes=10_000)
    assert (await service.log.read_page(ALICE, "acme@a", 0, page)).records
    with pytest.raises(QuotaExceeded, match="consumer_byte_rate"):
        await service.log.read_page(ALICE, "acme@a", 0, page)
    wanted = Receive(max_messages=1, lease_ms=1_000, start="earliest")
    with pytest.raises(QuotaExceeded):
        await service.queues.receive(ALICE, "acme@g", "acme@a", wanted)
    assert await service.queues.receive(ANYONE, "g", "a", wanted)


async def test_a_tenants_rate_is_that_of_all_its_users(node: Node, service: BrokerService) -> None:
    await limit(node, producer_byte_rate=1_000.0)
    await service.publishing.publish(ALICE, "acme@a", BIG)
    bob = Caller(principal=Principal("User", "bob", "acme"), door=Door.HTTP)
    with pytest.raises(QuotaExceeded):
        await service.publishing.publish(bob, "acme@a", SMALL)


async def test_topics_of_a_tenant(node: Node, service: BrokerService) -> None:
    await limit(node, topics=0)
    for making in (
        service.topics.create(ALICE, NewTopic(name="acme@new")),
        service.topics.ensure(ALICE, "acme@new"),
        service.sqs_queues.create(ALICE, "acme@new", {}, {}),
        service.publishing.publish(ALICE, "acme@new", SMALL, makes_topic=True),
    ):
        with pytest.raises(LimitReached, match="limit topics"):
            await making
    await limit(node, partitions=4)
    await service.topics.create_partitions(ALICE, "acme@a", 3)
    with pytest.raises(LimitReached, match="limit partitions"):
        await service.topics.create_partitions(ALICE, "acme@a", 6)


async def test_stored_bytes_of_a_tenant(node: Node, service: BrokerService) -> None:
    await limit(node, storage_bytes=0)
    batch = bytes(encode_records(SMALL, now_ms=1_000))
    with pytest.raises(LimitReached, match="limit storage_bytes"):
        await service.log.produce(ALICE_BY_KAFKA, "acme@a", 0, batch, acks=1, timeout_ms=1_000)
    with pytest.raises(LimitReached):
        await service.publishing.publish(ALICE, "acme@a", SMALL)
    with pytest.raises(LimitReached):
        await service.fifo.send(ALICE, "acme@q.fifo", [fifo_message(1)])


async def test_messages_in_flight_of_a_tenant(node: Node, service: BrokerService) -> None:
    await limit(node, in_flight_messages=0)
    wanted = Receive(max_messages=1, lease_ms=1_000, start="earliest")
    with pytest.raises(LimitReached, match="limit in_flight_messages"):
        await service.queues.receive(ALICE, "acme@g", "acme@a", wanted)


async def test_who_has_enough_in_flight_is_answered_with_nothing_after_a_while(
    node: Node, service: BrokerService
) -> None:
    """Share groups have no word for it, and consumers that are answered at once ask at once."""
    await limit(node, in_flight_messages=0)
    wanted = share_fetch(SharePart(node.topic("acme@a").id, 0), max_wait_ms=60_000)
    began = time.monotonic()
    member = ShareMember("acme@g", "m")
    assert not await service.share_groups.fetch(ALICE_BY_KAFKA, member, wanted)
    assert NO_ROOM_WAIT_MS <= (time.monotonic() - began) * 1000 < wanted.max_wait_ms


async def test_groups_of_a_tenant(node: Node, service: BrokerService) -> None:
    await limit(node, groups=0)
    commit = (OffsetToCommit(topic="acme@a", partition=0, offset=1),)
    await service.groups.commit(
        ANYONE,
        OffsetCommit(group_id="g", offsets=(OffsetToCommit(topic="a", partition=0, offset=1),)),
    )
    with pytest.raises(TooManyGroups, match="limit groups"):
        await service.groups.commit(ALICE, OffsetCommit(group_id="acme@g", offsets=commit))
    # Groups that read queues are groups.
    request = Receive(max_messages=1, start="earliest")
    with pytest.raises(TooManyGroups, match="limit groups"):
        await service.queues.receive(ALICE, "acme@q", "acme@a", request)
    await limit(node, groups=1)
    assert await service.queues.receive(ALICE, "acme@q", "acme@a", request)
    assert node.quotas.limits.groups("acme") == {"acme@q"}
    with pytest.raises(TooManyGroups, match="limit groups"):
        await service.groups.commit(ALICE, OffsetCommit(group_id="acme@g", offsets=commit))
    with pytest.raises(TooManyGroups, match="limit groups"):
        await service.queues.receive(ALICE, "acme@r", "acme@a", request)


async def test_partitions_made_and_deleted_count(node: Node, service: BrokerService) -> None:
    # Eleven at once.
    await hold(node, controller_mutation_rate=1)
    await service.topics.create(ALICE, NewTopic(name="acme@wide", partitions=12))
    with pytest.raises(QuotaExceeded, match="controller_mutation_rate"):
        await service.topics.create(ALICE, NewTopic(name="acme@more"))
    with pytest.raises(QuotaExceeded):
        await service.topics.delete(ALICE, "acme@wide")
    await service.topics.delete(ALICE, "acme@wide", is_strict=False)
    assert "acme@wide" not in node.image.topics
    assert "acme@more" not in node.image.topics


async def test_time_on_the_loop_counts(node: Node, service: BrokerService) -> None:
    assert not service.quotas.admit(ALICE)
    await hold(node, request_percentage=1)
    assert service.quotas.admit(ALICE)
    # A hundredth of a second per second.
    service.quotas.spent(ALICE, 0.05)
    with pytest.raises(QuotaExceeded, match="request_percentage"):
        service.quotas.admit(ALICE)
    assert not service.quotas.admit(ANYONE)
