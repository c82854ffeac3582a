"""A tenant that takes all it can of what all divide: others and administrators still get in."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from goqueue.broker.hosted_clients.members import register
from goqueue.broker.security import keys, rules, tokens, users
from goqueue.broker.transactions.room import ALWAYS_TAKEN_PARTITIONS
from goqueue.model.caller import Caller, Principal
from goqueue.model.errors import (
    ClusterAccessDenied,
    Overloaded,
    PolicyViolation,
    TooManyGroups,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import CooperativeJoin
from goqueue.model.groups.messages import Client, OffsetCommit, OffsetToCommit
from goqueue.model.names import topic_partition
from goqueue.model.queues.receiving import Receive
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.keys import KeyKind
from goqueue.model.security.quotas import QuotaChange, QuotaEntity
from goqueue.model.security.rules import Rule
from goqueue.model.security.tenants import inner_name
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import AddPartitions, InitProducerId
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

CAPACITY = 40
MANY_PARTITIONS = ALWAYS_TAKEN_PARTITIONS + 1
NOTE_BYTES = 4_000
RESERVED = "of which the last 2 are for administrators of the cluster"
SECURED = {"security__enabled": "true", "super__users": "User:root"}
ROOT = replace(ANYONE, principal=Principal("User", "root"))
ALICE = replace(ANYONE, principal=Principal("User", "alice"))
Make = Callable[[BrokerService, Caller, int], Awaitable[object]]


def boss(tenant: str) -> Caller:
    return replace(ANYONE, principal=Principal("User", f"{tenant}-boss", tenant))


async def make_rule(service: BrokerService, caller: Caller, number: int) -> None:
    rule = Rule(resource=Resource.TOPIC, name=f"t{number}", principal="User:a", verb=Verb.READ)
    await service.rules.add(caller, [rule])


async def make_user(service: BrokerService, caller: Caller, number: int) -> None:
    await service.users.create(caller, f"{caller.principal.name}-{number}")


async def make_key(service: BrokerService, caller: Caller, _: int) -> None:
    await service.keys.create(caller, caller.principal.name, KeyKind.API)


async def make_token(service: BrokerService, caller: Caller, _: int) -> None:
    await service.tokens.create(
        caller, owner=None, renewers=(), max_lifetime_ms=None, by_token=False
    )


async def made_until_refused(service: BrokerService, make: Make, caller: Caller) -> int:
    for number in range(CAPACITY + 1):
        try:
            await make(service, caller, number)
        except (PolicyViolation, TooManyGroups, Overloaded):
            return number
    raise AssertionError("nothing is bounded")


@pytest.fixture(params=["rules", "users", "keys", "tokens"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(rules, "RULES_MAX", CAPACITY)
    monkeypatch.setattr(users, "USERS_MAX", CAPACITY)
    monkeypatch.setattr(keys, "KEYS_MAX", CAPACITY)
    monkeypatch.setattr(tokens, "TOKENS_MAX", CAPACITY)
    makers: dict[str, Make] = {
        "rules": make_rule,
        "users": make_user,
        "keys": make_key,
        "tokens": make_token,
    }
    return makers[request.param]


async def begin(service: BrokerService, *tenants: str) -> None:
    await service.users.create(ROOT, "root")
    await service.users.create(ROOT, "alice")
    for tenant in tenants:
        await service.tenants.create(ROOT, tenant, {})
        await service.users.create(ROOT, f"{tenant}-boss", is_admin=True, tenant=tenant)


async def test_one_tenant_leaves_room_for_others(open_broker: OpenBroker, make: Make) -> None:
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        await begin(service, "acme", "zeta")
        many = await made_until_refused(service, make, boss("acme"))
        few = await made_until_refused(service, make, boss("zeta"))
        assert CAPACITY / 2 <= many + 3 < CAPACITY
        # A third of a half each: of 38 beside the reserve.
        assert few + 1 >= 6
        await make(service, ROOT, 1_000)
        # Those that go make room again.
        await service.tenants.delete(ROOT, "acme", is_forced=True)
        if make is not make_token:
            await make(service, boss("zeta"), 1_001)


async def test_without_tenants_all_but_the_reserve_is_for_everybody(
    open_broker: OpenBroker, make: Make
) -> None:
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        await begin(service)
        if make in (make_key, make_token):
            assert await made_until_refused(service, make, ALICE) == CAPACITY * 19 // 20
        found = await made_until_refused(service, make, ROOT)
        assert found > 0
        with pytest.raises(PolicyViolation, match=f"{CAPACITY} .* at most"):
            await make(service, ROOT, 1_000)


async def make_group(service: BrokerService, caller: Caller, number: int) -> None:
    tenant = caller.principal.tenant
    offset = OffsetToCommit(topic=inner_name(tenant, "a"), partition=0, offset=1)
    commit = OffsetCommit(group_id=inner_name(tenant, f"g{number}"), offsets=(offset,))
    await service.groups.commit(caller, commit)


async def make_queue(service: BrokerService, caller: Caller, number: int) -> None:
    group, topic = (inner_name(caller.principal.tenant, each) for each in (f"g{number}", "a"))
    wanted = Receive(max_messages=1, lease_ms=1_000, start="earliest")
    await service.queues.receive(caller, group, topic, wanted)


async def make_sqs_queue(service: BrokerService, caller: Caller, number: int) -> None:
    name = inner_name(caller.principal.tenant, f"q{number}")
    await service.sqs_queues.create(caller, name, {}, {})


async def make_transactional_id(service: BrokerService, caller: Caller, number: int) -> None:
    name = inner_name(caller.principal.tenant, f"t{number}")
    wanted = InitProducerId(transactional_id=name, timeout_ms=60_000)
    await service.transactions.init_producer_id(caller, wanted)


async def make_transaction(service: BrokerService, caller: Caller, number: int) -> None:
    """With more partitions than every transaction may have."""
    tenant = caller.principal.tenant
    name, topic = inner_name(tenant, f"t{number}"), inner_name(tenant, "a")
    wanted = InitProducerId(transactional_id=name, timeout_ms=60_000)
    made = await service.transactions.init_producer_id(caller, wanted)
    request = AddPartitions(
        transactional_id=name,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        partitions=frozenset(topic_partition(topic, each) for each in range(MANY_PARTITIONS)),
    )
    await service.transactions.add_partitions(caller, request)


async def make_note(service: BrokerService, caller: Caller, number: int) -> None:
    """Beside a committed offset."""
    tenant = caller.principal.tenant
    offset = OffsetToCommit(
        topic=inner_name(tenant, "a"), partition=0, offset=1, metadata="x" * NOTE_BYTES
    )
    commit = OffsetCommit(group_id=inner_name(tenant, f"g{number}"), offsets=(offset,))
    (result,) = (await service.groups.commit(caller, commit)).partitions
    if result.error is not GroupError.NONE:
        raise TooManyGroups(result.error.name)


async def make_topic(service: BrokerService, caller: Caller, number: int) -> None:
    name = inner_name(caller.principal.tenant, f"new{number}")
    await service.topics.create(caller, NewTopic(name=name, partitions=2))


@pytest.mark.parametrize(
    ("setting", "make", "per_make"),
    [
        ("max__groups", make_group, 1),
        ("max__queues", make_queue, 1),
        ("max__queues", make_sqs_queue, 1),
        ("max__transactional__ids", make_transactional_id, 1),
        ("max__transaction__partitions", make_transaction, MANY_PARTITIONS),
        ("max__partitions__per__broker", make_topic, 2),
        # With names, numbers and objects around it.
        ("all__groups__max__bytes", make_note, NOTE_BYTES + 380),
    ],
)
async def test_of_what_names_belong_to(
    open_broker: OpenBroker, setting: str, make: Make, per_make: int
) -> None:
    partitions = MANY_PARTITIONS if make is make_transaction else 1
    limit = {setting: str(CAPACITY * per_make), "num__partitions": str(partitions)}
    async with open_broker(**SECURED, **limit) as node:
        service = BrokerService(node)
        await begin(service, "acme", "zeta")
        for caller in (boss("acme"), boss("zeta"), ROOT):
            name = inner_name(caller.principal.tenant, "a")
            await service.topics.create(caller, NewTopic(name=name))
        many = await made_until_refused(service, make, boss("acme"))
        few = await made_until_refused(service, make, boss("zeta"))
        assert CAPACITY / 2 <= many < CAPACITY - 5
        assert few >= CAPACITY // 2 // 3 - 1
        for number in range(CAPACITY // 2 // 3 - 2):
            await make(service, ROOT, number)


async def make_small_topic(service: BrokerService, caller: Caller, number: int) -> None:
    name = inner_name(caller.principal.tenant, f"t{number}")
    await service.topics.create(caller, NewTopic(name=name))


# What names belong to, and is kept in part for administrators.
KEPT: list[tuple[str, Make]] = [
    ("max__groups", make_group),
    ("max__queues", make_queue),
    ("max__queues", make_sqs_queue),
    ("max__transactional__ids", make_transactional_id),
]
TENANTS = ("acme", "zeta")


@pytest.mark.parametrize(
    ("setting", "make", "tenants"),
    [
        *((*each, TENANTS) for each in KEPT),
        *((*each, ()) for each in KEPT),
        # Partitions are divided only where there are tenants.
        ("max__partitions__per__broker", make_small_topic, TENANTS),
    ],
)
async def test_administrators_of_the_cluster_have_a_reserve(
    open_broker: OpenBroker, setting: str, make: Make, tenants: tuple[str, ...]
) -> None:
    async with open_broker(**SECURED, **{setting: str(CAPACITY), "num__partitions": "1"}) as node:
        service = BrokerService(node)
        await begin(service, *tenants)
        await let_everything(service, "alice")
        of_all = 0
        if make is not make_small_topic:
            for tenant in (*tenants, ""):
                caller = boss(tenant) if tenant else ROOT
                await service.topics.create(caller, NewTopic(name=inner_name(tenant, "a")))
        for caller in (*map(boss, tenants), ALICE):
            of_all += await made_until_refused(service, make, caller)
        open_to_all = CAPACITY * 19 // 20
        assert of_all <= open_to_all
        for number in range(open_to_all - of_all):
            await make(service, ROOT, CAPACITY + number)
        with pytest.raises((PolicyViolation, TooManyGroups), match=RESERVED):
            await make(service, ALICE, 2 * CAPACITY)
        for number in range(CAPACITY - open_to_all):
            await make(service, ROOT, 3 * CAPACITY + number)
        with pytest.raises((PolicyViolation, TooManyGroups)) as refused:
            await make(service, ROOT, 4 * CAPACITY)
        assert "administrators" not in str(refused.value)


@pytest.mark.parametrize(("setting", "make"), KEPT)
async def test_where_nobody_logs_in_nothing_is_kept(
    open_broker: OpenBroker, setting: str, make: Make
) -> None:
    async with open_broker(**{setting: str(CAPACITY), "num__partitions": "1"}) as node:
        service = BrokerService(node)
        await service.topics.create(ANYONE, NewTopic(name="a"))
        assert await made_until_refused(service, make, ANYONE) == CAPACITY


async def let_everything(service: BrokerService, user: str) -> None:
    """But for altering the cluster."""
    asked = (
        (Resource.TOPIC, (Verb.READ, Verb.WRITE, Verb.CREATE)),
        (Resource.GROUP, (Verb.READ,)),
        (Resource.TRANSACTIONAL_ID, (Verb.WRITE,)),
    )
    principal = f"User:{user}"
    await service.rules.add(
        ROOT,
        [
            Rule(resource=resource, name="*", principal=principal, verb=verb)
            for resource, verbs in asked
            for verb in verbs
        ],
    )


async def make_member(service: BrokerService, caller: Caller, _: int) -> str:
    group, topic = (inner_name(caller.principal.tenant, each) for each in ("g", "a"))
    wanted = CooperativeJoin(group_id=group, topics=(topic,), client=Client())
    return (await service.members.join_cooperative(caller, wanted)).member_id


async def test_of_members_that_poll_over_http(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "MEMBERS_MAX", CAPACITY)
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        await begin(service, "acme", "zeta")
        for caller in (boss("acme"), boss("zeta"), ROOT):
            name = inner_name(caller.principal.tenant, "a")
            await service.topics.create(caller, NewTopic(name=name))
        first = await make_member(service, boss("acme"), 0)
        many = 1 + await made_until_refused(service, make_member, boss("acme"))
        assert CAPACITY / 2 <= many < CAPACITY - 5
        # Who has a place keeps it, whatever its tenant has.
        group, topic = inner_name("acme", "g"), inner_name("acme", "a")
        again = CooperativeJoin(
            group_id=group, topics=(topic,), member_id=first, client=Client(client_id="b")
        )
        await service.members.join_cooperative(boss("acme"), again)
        for caller in (boss("zeta"), ROOT):
            for number in range(CAPACITY // 2 // 3):
                await make_member(service, caller, number)


async def test_administrators_of_tenants_have_nothing_to_do_with_quotas(
    open_broker: OpenBroker,
) -> None:
    """Which are by names of users and client ids, whichever tenant they are of."""
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        await begin(service, "acme")
        change = QuotaChange(QuotaEntity(user="alice"), {"producer_byte_rate": 1.0})
        for refused in (
            service.quotas.alter(boss("acme"), [change]),
            service.quotas.alter_all(boss("acme"), [change]),
        ):
            with pytest.raises(ClusterAccessDenied):
                await refused
        for look in (service.quotas.describe, service.quotas.usage):
            with pytest.raises(ClusterAccessDenied):
                look(boss("acme"))
