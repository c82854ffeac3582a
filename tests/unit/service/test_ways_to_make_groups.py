"""Every request that makes a group is held to max.groups, of which the last are for administrators,
and to the limit of its tenant."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from goqueue.model.caller import Caller, Principal
from goqueue.model.errors import TooManyGroups
from goqueue.model.groups.hosted_members import ClassicJoin, CooperativeJoin
from goqueue.model.groups.messages import (
    Client,
    ConsumerGroupHeartbeat,
    JoinGroup,
    MemberProtocol,
    OffsetCommit,
    OffsetToCommit,
    TxnOffsetCommit,
)
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.groups.streams_messages import StreamsGroupHeartbeat
from goqueue.model.groups.tasks import NO_TASKS
from goqueue.model.groups.topology import Subtopology, Topology
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.share import NewShareOffset
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Rule
from goqueue.model.security.tenants import inner_name
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import InitProducerId, ProducerIdentity
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

CAPACITY = 20
ROOT = replace(ANYONE, principal=Principal("User", "root"))
ALICE = replace(ANYONE, principal=Principal("User", "alice"))
BOSS = replace(ANYONE, principal=Principal("User", "boss", "acme"))
Make = Callable[[BrokerService, Caller, str, str], Awaitable[object]]


def offset(topic: str) -> OffsetToCommit:
    return OffsetToCommit(topic=topic, partition=0, offset=1)


async def commit(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    await service.groups.commit(caller, OffsetCommit(group_id=group, offsets=(offset(topic),)))


async def join(service: BrokerService, caller: Caller, group: str, _topic: str) -> None:
    wanted = JoinGroup(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=(MemberProtocol(name="range", metadata=b""),),
        requires_known_member_id=False,
    )
    await service.groups.join(caller, wanted)


async def beat(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    wanted = ConsumerGroupHeartbeat(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topics=(topic,),
        owned={},
    )
    await service.groups.consumer_heartbeat(caller, wanted)


async def beat_shared(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    wanted = ShareGroupHeartbeat(
        group_id=group, member_id="m", member_epoch=0, subscribed_topics=(topic,)
    )
    await service.share_groups.heartbeat(caller, wanted)


async def beat_streams(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    wanted = StreamsGroupHeartbeat(
        group_id=group,
        member_id="m",
        member_epoch=0,
        topology=Topology(1, (Subtopology("0", (topic,)),)),
        process_id="p",
        rebalance_timeout_ms=60_000,
        owned=NO_TASKS,
    )
    await service.streams_groups.heartbeat(caller, wanted)


async def set_shared(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    await service.share_groups.alter_offsets(caller, group, [(topic, [NewShareOffset(0, 0)])])


async def join_hosted(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    wanted = ClassicJoin(group_id=group, topics=(topic,), client=Client())
    await service.members.join(caller, wanted)


async def join_cooperative(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    wanted = CooperativeJoin(group_id=group, topics=(topic,), client=Client())
    await service.members.join_cooperative(caller, wanted)


async def commit_hosted(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    await service.members.commit(caller, group, [offset(topic)], member_id=None, epoch=None)


async def commit_in_transaction(
    service: BrokerService, caller: Caller, group: str, topic: str
) -> None:
    wanted = InitProducerId(transactional_id=group, timeout_ms=60_000)
    made = await service.transactions.init_producer_id(caller, wanted)
    request = TxnOffsetCommit(
        group_id=group,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        offsets=(offset(topic),),
    )
    await service.transactions.commit_offsets(caller, group, request, adds_offsets=True)


async def commit_in_hosted_transaction(
    service: BrokerService, caller: Caller, group: str, topic: str
) -> None:
    wanted = InitProducerId(transactional_id=group, timeout_ms=60_000)
    made = await service.producers.init(caller, wanted)
    producer = ProducerIdentity(group, made.producer_id, made.producer_epoch)
    await service.producers.begin(caller, producer)
    request = TxnOffsetCommit(
        group_id=group,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        offsets=(offset(topic),),
    )
    await service.producers.commit_offsets(caller, producer, request)


async def receive(service: BrokerService, caller: Caller, group: str, topic: str) -> None:
    await service.queues.receive(caller, group, topic, Receive(max_messages=1, start="earliest"))


COORDINATED = [
    commit,
    join,
    beat,
    beat_shared,
    beat_streams,
    set_shared,
    join_hosted,
    join_cooperative,
    commit_hosted,
    commit_in_transaction,
    commit_in_hosted_transaction,
]


async def begin(service: BrokerService) -> None:
    for name in ("root", "alice"):
        await service.users.create(ROOT, name)
    rules = [
        Rule(resource=resource, name="*", principal="User:alice", verb=verb)
        for resource, verb in (
            (Resource.TOPIC, Verb.READ),
            (Resource.GROUP, Verb.READ),
            (Resource.TRANSACTIONAL_ID, Verb.WRITE),
        )
    ]
    await service.rules.add(ROOT, rules)
    await service.topics.create(ROOT, NewTopic(name="a", partitions=1))


@pytest.mark.parametrize("make", COORDINATED)
async def test_the_last_are_for_administrators(open_broker: OpenBroker, make: Make) -> None:
    settings = {"security__enabled": "true", "super__users": "User:root"}
    async with open_broker(**settings, max__groups=str(CAPACITY)) as node:
        service = BrokerService(node)
        await begin(service)
        for number in range(CAPACITY - 1):
            await commit(service, ALICE, f"g{number}", "a")
        with pytest.raises(TooManyGroups, match="the last 1 are for administrators"):
            await make(service, ALICE, "alices", "a")
        await make(service, ROOT, "roots", "a")


@pytest.mark.parametrize("make", [*COORDINATED, receive])
async def test_none_gets_around_the_limit_of_its_tenant(
    open_broker: OpenBroker, make: Make
) -> None:
    settings = {"security__enabled": "true", "super__users": "User:root"}
    async with open_broker(**settings) as node:
        service = BrokerService(node)
        await begin(service)
        await service.tenants.create(ROOT, "acme", {"groups": 0})
        await service.users.create(ROOT, "boss", is_admin=True, tenant="acme")
        topic = inner_name("acme", "a")
        await service.topics.create(BOSS, NewTopic(name=topic, partitions=1))
        with pytest.raises(TooManyGroups, match="limit groups"):
            await make(service, BOSS, inner_name("acme", "g"), topic)
        assert (await service.tenants.usage(ROOT, "acme")).groups == 0
        await service.tenants.set_limits(ROOT, "acme", {"groups": 1})
        await make(service, BOSS, inner_name("acme", "h"), topic)
        assert (await service.tenants.usage(ROOT, "acme")).groups == 1


async def test_groups_that_only_read_queues_go_with_their_tenant(open_broker: OpenBroker) -> None:
    settings = {"security__enabled": "true", "super__users": "User:root"}
    async with open_broker(**settings) as node:
        service = BrokerService(node)
        await begin(service)
        await service.tenants.create(ROOT, "acme", {})
        await service.users.create(ROOT, "boss", is_admin=True, tenant="acme")
        topic = inner_name("acme", "a")
        await service.topics.create(BOSS, NewTopic(name=topic, partitions=1))
        await receive(service, BOSS, inner_name("acme", "g"), topic)
        await service.tenants.delete(ROOT, "acme", is_forced=True)
        # None of its things is left that would be in the way.
        await service.tenants.create(ROOT, "acme", {})
        assert (await service.tenants.usage(ROOT, "acme")).groups == 0
