"""Who may produce under which transactional ids, and what belongs to whose transaction."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    ClusterAccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JoinGroup,
    JoinGroupResult,
    MemberProtocol,
    OffsetToCommit,
    SyncGroup,
    TxnOffsetCommit,
)
from goqueue.model.log import Published
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import OFFSETS_TOPIC, NewTopic
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    AddPartitions,
    InitProducerId,
    ListTransactions,
    ProducerIdentity,
)
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.rules import Grant, Granted, cluster, group, topic, transactional_id
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SECRET = "canary-topic"
ID = "shop"


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    async with open_broker() as opened:
        for name in ("open", SECRET):
            await BrokerService(opened).topics.create(ANYONE, NewTopic(name=name, partitions=1))
        yield opened


@pytest.fixture
async def begun(broker: Node) -> ProducerIdentity:
    """A producer with an open transaction."""
    producers = BrokerService(broker).producers
    made = await producers.init(ANYONE, InitProducerId(transactional_id=ID, timeout_ms=60_000))
    identity = ProducerIdentity(ID, made.producer_id, made.producer_epoch)
    await producers.begin(ANYONE, identity)
    return identity


def allowed(broker: Node, *grants: Grant) -> BrokerService:
    return BrokerService(broker, Granted(*grants))


async def test_a_producer_id_takes_the_right_to_its_transactional_id_or_to_the_cluster(
    broker: Node,
) -> None:
    named = InitProducerId(transactional_id=ID, timeout_ms=60_000)
    plain = InitProducerId(transactional_id=None, timeout_ms=60_000)
    with pytest.raises(TransactionalIdAccessDenied):
        await allowed(broker, cluster(Verb.IDEMPOTENT_WRITE)).producers.init(ANYONE, named)
    with pytest.raises(ClusterAccessDenied):
        await allowed(broker, transactional_id(ID, Verb.WRITE)).producers.init(ANYONE, plain)
    writer = allowed(broker, transactional_id(ID, Verb.WRITE), cluster(Verb.IDEMPOTENT_WRITE))
    for request in (named, plain):
        assert (await writer.producers.init(ANYONE, request)).error is TransactionError.NONE


async def test_partitions_are_added_together_or_not_at_all(
    broker: Node, begun: ProducerIdentity
) -> None:
    mine, theirs = topic_partition("open", 0), topic_partition(SECRET, 0)
    service = allowed(broker, transactional_id(ID, Verb.WRITE), topic("open", Verb.WRITE))
    answer = await service.transactions.add_partitions(
        ANYONE,
        AddPartitions(
            transactional_id=ID,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            partitions=frozenset({mine, theirs}),
        ),
    )
    assert answer.errors == {
        mine: TransactionError.OPERATION_NOT_ATTEMPTED,
        theirs: TransactionError.TOPIC_AUTHORIZATION_FAILED,
    }
    found = await BrokerService(broker).transactions.describe(ANYONE, ID)
    assert found.partitions == frozenset()


async def test_a_broker_that_tells_of_a_new_topic_of_offsets_is_asked_to_come_again(
    broker: Node, begun: ProducerIdentity
) -> None:
    """It leads a partition of it; the news takes a while to come here."""
    place = topic_partition(OFFSETS_TOPIC, 0)
    request = AddPartitions(
        transactional_id=ID,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        partitions=frozenset({place}),
    )
    add = BrokerService(broker).transactions.add_partitions
    assert (await add(ANYONE, replace(request, is_of_broker=True))).errors == {
        place: TransactionError.COORDINATOR_LOAD_IN_PROGRESS
    }
    assert (await add(ANYONE, request)).errors == {
        place: TransactionError.UNKNOWN_TOPIC_OR_PARTITION
    }


async def test_publishing_takes_the_rights_to_both_id_and_topic(
    broker: Node, begun: ProducerIdentity
) -> None:
    async def publish(*grants: Grant) -> None:
        await allowed(broker, *grants).producers.publish(
            ANYONE, begun, "open", [NewRecord(value=b"x")], [None], sequence=None
        )

    with pytest.raises(TopicAccessDenied):
        await publish(transactional_id(ID, Verb.WRITE))
    with pytest.raises(TransactionalIdAccessDenied):
        await publish(topic("open", Verb.WRITE))
    await publish(transactional_id(ID, Verb.WRITE), topic("open", Verb.WRITE))
    found = await BrokerService(broker).transactions.describe(ANYONE, ID)
    assert found.partitions == {topic_partition("open", 0)}


async def test_offsets_of_hosted_producers_are_committed_together_or_not_at_all(
    broker: Node, begun: ProducerIdentity
) -> None:
    commit = TxnOffsetCommit(
        group_id="g",
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        offsets=(
            OffsetToCommit(topic="open", partition=0, offset=1),
            OffsetToCommit(topic=SECRET, partition=0, offset=1),
        ),
    )
    grants = (transactional_id(ID, Verb.WRITE), topic("open", Verb.READ))
    with pytest.raises(GroupAccessDenied):
        await allowed(broker, *grants).producers.commit_offsets(ANYONE, begun, commit)
    reader = allowed(broker, *grants, group("g", Verb.READ))
    with pytest.raises(TopicAccessDenied):
        await reader.producers.commit_offsets(ANYONE, begun, commit)
    found = await BrokerService(broker).transactions.describe(ANYONE, ID)
    assert found.partitions == frozenset()


async def generation(broker: Node, member_id: str = "") -> JoinGroupResult:
    """The next one of a group with one member."""
    groups = BrokerService(broker).groups
    joined = await groups.join(
        ANYONE,
        JoinGroup(
            group_id="g",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(MemberProtocol(name="range", metadata=b""),),
            requires_known_member_id=False,
        ),
    )
    sync = SyncGroup(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments={joined.member_id: b""},
    )
    assert (await groups.sync(ANYONE, sync)).error is GroupError.NONE
    return joined


async def test_what_is_left_of_a_commit_is_still_of_its_member_and_generation(
    broker: Node, begun: ProducerIdentity
) -> None:
    old = await generation(broker)
    new = await generation(broker, old.member_id)
    assert (old.member_id, old.generation_id + 1) == (new.member_id, new.generation_id)
    reader = allowed(
        broker, transactional_id(ID, Verb.WRITE), group("g", Verb.READ), topic("open", Verb.READ)
    )

    async def commit(generation_id: int, member_id: str) -> list[GroupError]:
        request = TxnOffsetCommit(
            group_id="g",
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            offsets=tuple(
                OffsetToCommit(topic=name, partition=0, offset=1) for name in (SECRET, "open")
            ),
            generation_id=generation_id,
            member_id=member_id,
        )
        answer = await reader.transactions.commit_offsets(ANYONE, ID, request, adds_offsets=True)
        return [each.error for each in answer.partitions]

    denied = GroupError.TOPIC_AUTHORIZATION_FAILED
    assert await commit(old.generation_id, old.member_id) == [denied, GroupError.ILLEGAL_GENERATION]
    assert await commit(new.generation_id, "another") == [denied, GroupError.UNKNOWN_MEMBER_ID]
    assert await commit(new.generation_id, new.member_id) == [denied, GroupError.NONE]


async def test_transactions_are_seen_as_far_as_that_is_allowed(
    broker: Node, begun: ProducerIdentity
) -> None:
    nobody = allowed(broker).transactions
    assert (await nobody.list(ANYONE, ListTransactions())).transactions == ()
    assert (await nobody.describe_listed(ANYONE, ListTransactions(), 10)).total == 0
    assert (await nobody.statistics(ANYONE)).total == 0
    with pytest.raises(TransactionalIdAccessDenied):
        await nobody.describe(ANYONE, ID)
    seer = allowed(broker, transactional_id(ID, Verb.DESCRIBE)).transactions
    (listed,) = (await seer.list(ANYONE, ListTransactions())).transactions
    assert listed.transactional_id == begun.transactional_id
    assert (await seer.statistics(ANYONE)).open == 1


async def test_markers_are_written_by_those_who_act_for_the_cluster(broker: Node) -> None:
    marker = Marker(MarkerType.ABORT, 0)
    place = topic_partition("open", 0)
    with pytest.raises(ClusterAccessDenied):
        await allowed(broker).transactions.write_marker(
            ANYONE, place, marker, producer_id=1, producer_epoch=0, bumps_epoch=False
        )
    assert broker.partition("open", 0).log_end_offset == 0


async def test_who_names_the_producer_of_somebody_else_does_not_hold_it_up(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of producers are small numbers, and a topic of one's own may wait for its replicas."""
    async with open_broker() as node:
        service = BrokerService(node)
        for name in ("mine", "others"):
            await service.topics.create(ANYONE, NewTopic(name=name, partitions=1))
        produce: Any = node.log.produce
        waits = asyncio.Event()

        async def slow(name: str, *given: Any, **options: Any) -> Any:
            if name == "others":
                waits.set()
                await asyncio.Event().wait()
            return await produce(name, *given, **options)

        monkeypatch.setattr(node.log, "produce", slow)

        async def publish(name: str) -> list[Published]:
            records = [NewRecord(value=b"v")]
            return await service.producers.publish_idempotent(
                ANYONE, 7, 0, name, records, [0], sequence=None
            )

        waiting = asyncio.create_task(publish("others"))
        await waits.wait()
        async with asyncio.timeout(60):
            assert [each.offset for each in await publish("mine")] == [0]
        waiting.cancel()
