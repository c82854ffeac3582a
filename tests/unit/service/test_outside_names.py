"""Names that an identity provider or a certificate tells, where users here have the same names."""

from dataclasses import replace

import msgspec
import pytest

from goqueue.broker.security.scram_records import ScramRecords
from goqueue.metadata.store import Put
from goqueue.model.caller import Caller, Principal
from goqueue.model.errors import AccessDenied, ClusterAccessDenied
from goqueue.model.security.errors import AuthenticationFailed, TokenNotOwned
from goqueue.model.security.keys import KeyKind
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from goqueue.state.security.sasl.scram_server import Claim
from goqueue.state.security.scram import SHA_256
from tests.callers import ANYONE
from tests.rules import Granted
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

BOSS = replace(ANYONE, principal=Principal("User", "boss", "acme"))
CAROL_OUTSIDE = Principal("User", "carol")


def as_caller(principal: Principal) -> Caller:
    return replace(ANYONE, principal=principal)


async def test_a_tenants_user_does_not_capture_a_name_from_outside(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(security__enabled="true") as node:
        service = BrokerService(node, Everybody())
        await service.tenants.create(ANYONE, "acme", {})
        await service.users.create(BOSS, "carol", "of acme")
        login = service.authentication.of_certificate("carol")
        assert login.principal == CAROL_OUTSIDE
        assert service.authentication.holds(login)


async def test_a_tenant_has_no_say_in_who_is_federated(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        service = BrokerService(node, Everybody())
        await service.tenants.create(ANYONE, "acme", {})
        await service.users.create(BOSS, "carol", "of acme")
        with pytest.raises(ClusterAccessDenied):
            await service.users.create(BOSS, "dave", "of acme", is_federated=True)
        with pytest.raises(ClusterAccessDenied):
            await service.users.set_federated(BOSS, "carol", True)
        assert not any(each.is_federated for each in await service.users.users(ANYONE))


async def test_a_federated_user_is_meant_in_its_tenant_until_it_is_no_more(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        service = BrokerService(node)
        await service.tenants.create(ANYONE, "acme", {})
        before = service.authentication.of_certificate("carol")
        await service.users.create(ANYONE, "carol", tenant="acme", is_federated=True)
        assert not service.authentication.holds(before)
        login = service.authentication.of_certificate("carol")
        assert login.principal == Principal("User", "carol", "acme")
        assert service.authentication.holds(login)
        await service.users.set_federated(ANYONE, "carol", False)
        assert not service.authentication.holds(login)
        assert service.authentication.of_certificate("carol").principal == CAROL_OUTSIDE
    async with open_broker() as node:
        assert not BrokerService(node).users.user(ANYONE, "carol").is_federated


async def test_a_name_of_a_user_without_a_tenant_is_refused(open_broker: OpenBroker) -> None:
    """Rules and super.users that speak of the name mean the user."""
    async with open_broker() as node:
        service = BrokerService(node)
        outside = service.authentication.of_certificate("carol")
        await service.users.create(ANYONE, "carol", "a password")
        assert not service.authentication.holds(outside)
        with pytest.raises(AuthenticationFailed, match="not federated"):
            service.authentication.of_certificate("carol")
        await service.users.set_federated(ANYONE, "carol", True)
        assert service.authentication.of_certificate("carol").principal == CAROL_OUTSIDE


async def test_a_user_of_a_tenant_made_anew_is_not_federated(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        service = BrokerService(node)
        await service.tenants.create(ANYONE, "acme", {})
        await service.users.create(ANYONE, "carol", tenant="acme", is_federated=True)
        await service.users.delete(BOSS, "carol")
        await service.users.create(BOSS, "carol", "another")
        assert service.authentication.of_certificate("carol").principal == CAROL_OUTSIDE


async def test_who_has_the_name_of_a_tenants_user_has_nothing_of_its(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(security__enabled="true") as node:
        service = BrokerService(node, Everybody())
        await service.tenants.create(ANYONE, "acme", {})
        inside = (await service.users.create(BOSS, "carol", "of acme")).principal
        key = (await service.keys.create(as_caller(inside), "carol", KeyKind.API)).key
        token = await service.tokens.create(
            as_caller(inside), owner=None, renewers=(), max_lifetime_ms=None, by_token=False
        )
        assert token.token.tenant == "acme"

        limited, outside = BrokerService(node, Granted()), as_caller(CAROL_OUTSIDE)
        assert not await limited.keys.keys(outside)
        assert not limited.tokens.tokens(outside, None, by_token=False)
        with pytest.raises(TokenNotOwned):
            await limited.tokens.expire(outside, token.hmac, None, by_token=False)
        for refused in (
            limited.users.set_password(outside, "carol", "captured"),
            limited.keys.create(outside, "carol", KeyKind.API),
            limited.keys.delete(outside, key.id),
        ):
            with pytest.raises(AccessDenied):
                await refused
        own = await limited.tokens.create(
            outside, owner=None, renewers=(), max_lifetime_ms=None, by_token=False
        )
        assert own.token.tenant == ""
        assert not own.token.is_of_user
        assert await owner_by_token(node.security.scram_records, own.token.id) == CAROL_OUTSIDE

        # The user's end is not that of the other one's tokens.
        await service.users.delete(BOSS, "carol")
        assert await owner_by_token(node.security.scram_records, own.token.id) == CAROL_OUTSIDE
        assert await owner_by_token(node.security.scram_records, token.token.id) is None
        # From here on rules that speak of carol mean the user.
        await service.users.create(ANYONE, "carol", "a password")
        assert await owner_by_token(node.security.scram_records, own.token.id) is None


async def test_a_token_is_none_of_a_later_user_of_the_same_name(open_broker: OpenBroker) -> None:
    """It was made while its owner was deleted."""
    async with open_broker(security__enabled="true") as node:
        service = BrokerService(node, Everybody())
        made = await service.users.create(ANYONE, "carol", "a password")
        token = await service.tokens.create(
            as_caller(made.principal), owner=None, renewers=(), max_lifetime_ms=None, by_token=False
        )
        assert await owner_by_token(node.security.scram_records, token.token.id) == made.principal
        later = msgspec.structs.replace(made, created_ms=token.token.issued_ms + 1)
        entry = keys.security_entry(keys.SecurityKind.USER, "carol", later)
        await node.changes.change(entry.key, lambda _: [Put(*entry)])
        assert await owner_by_token(node.security.scram_records, token.token.id) is None


async def owner_by_token(records: ScramRecords, token_id: str) -> Principal | None:
    found = await records.find(SHA_256, Claim(token_id, is_token=True), brokers_only=False)
    return None if found.login is None else found.login.principal


class Everybody:
    """Rules for what a test makes ready."""

    def allows(self, *_: object) -> bool:
        return True
