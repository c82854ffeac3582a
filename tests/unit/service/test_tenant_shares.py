"""A tenant that takes all it can of what all divide: others and administrators still get in."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from goqueue.broker.security import keys, rules, tokens, users
from goqueue.model.caller import Caller, Principal
from goqueue.model.errors import PolicyViolation
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.keys import KeyKind
from goqueue.model.security.rules import Rule
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

CAPACITY = 40
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
        except PolicyViolation:
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
