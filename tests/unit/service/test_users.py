"""Users with rules switched on: who may make, see, change and remove them."""

from dataclasses import replace
from functools import partial

import pytest

from goqueue.broker.node import Node
from goqueue.metadata.store import Op, Put
from goqueue.model.caller import Principal
from goqueue.model.errors import ClusterAccessDenied, InvalidRequest
from goqueue.model.rights import Verb
from goqueue.model.security.errors import (
    AuthenticationFailed,
    LastAdministrator,
    UnknownTenant,
    UnknownUser,
    UserExists,
)
from goqueue.model.security.keys import AccessKey, KeyKind
from goqueue.model.security.users import BROKERS_USER
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_keys import SecurityKind
from goqueue.state.security.scram import SHA_256, SHA_512
from tests.callers import ANYONE
from tests.rules import Granted, cluster
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALICE = replace(ANYONE, principal=Principal("User", "alice"))
OF_ACME = replace(ANYONE, principal=Principal("User", "boss", "acme"))


async def store_keys(node: Node, user: str, count: int) -> None:
    for number in range(count):
        key = AccessKey(id=f"{user}{number}", kind=KeyKind.API, user=user)
        entry = keys.security_entry(SecurityKind.KEY, key.id, key)
        await node.changes.change(entry.key, partial(_put, entry))


def _put(entry: keys.Entry, _: bytes | None) -> list[Op]:
    return [Put(*entry)]


async def test_a_user_that_was_made_logs_in_by_its_password(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        service = BrokerService(node)
        made = await service.users.create(ANYONE, "alice", "secret", is_admin=True)
        assert set(made.scram) == {SHA_256, SHA_512}
        assert [user.name for user in await service.users.users(ANYONE)] == ["alice"]
        assert await service.authentication.by_password("alice", "secret") == made.principal
        with pytest.raises(AuthenticationFailed):
            await service.authentication.by_password("alice", "secret2")
        # To HMAC it is the same key.
        with pytest.raises(AuthenticationFailed):
            await service.authentication.by_password("alice", "secret\0")
        with pytest.raises(UserExists):
            await service.users.create(ANYONE, "alice", "other")
    async with open_broker() as node:
        assert BrokerService(node).users.user(ANYONE, "alice").is_admin


@pytest.mark.parametrize(
    "name",
    [
        *("", BROKERS_USER, "a:b", "a/b", "*", "x" * 201),
        # Others would take them for somebody else, or terminals for a command.
        *("alice ", " alice", "ali\u200bce", "a\u202eb", "a\u2028b", "\xa0a", "a\nb", "a\x9bb"),
        # There is another way to write it, which looks the same.
        "jose\u0301",
        "?",
    ],
)
async def test_bad_names_are_refused(open_broker: OpenBroker, name: str) -> None:
    async with open_broker() as node:
        with pytest.raises(InvalidRequest, match="user name"):
            await BrokerService(node).users.create(ANYONE, name, "secret")


@pytest.mark.parametrize("password", ["", "x" * 1_025, "a\0b"])
async def test_bad_passwords_are_refused_without_being_told(
    open_broker: OpenBroker, password: str
) -> None:
    async with open_broker() as node:
        with pytest.raises(InvalidRequest, match="password") as refused:
            await BrokerService(node).users.create(ANYONE, "alice", password)
        assert not password or password not in str(refused.value)


async def test_what_is_changed_needs_the_right_to_alter_the_cluster(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        await BrokerService(node).users.create(ANYONE, "alice", "secret")
        service = BrokerService(node, Granted(cluster(Verb.DESCRIBE)))
        assert service.users.user(ANYONE, "alice").name == "alice"
        for refused in (
            service.users.create(ANYONE, "bob", "secret"),
            service.users.set_password(ANYONE, "alice", "other"),
            service.users.set_admin(ANYONE, "alice", True),
            service.users.delete(ANYONE, "alice"),
            service.users.alter_scram(ANYONE, "alice", {SHA_256: None}),
        ):
            with pytest.raises(ClusterAccessDenied):
                await refused
        with pytest.raises(ClusterAccessDenied):
            await BrokerService(node, Granted()).users.users(ANYONE)


async def test_everyone_may_change_its_own_password(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await BrokerService(node).users.create(ANYONE, "alice", "secret")
        service = BrokerService(node, Granted())
        await service.users.set_password(ALICE, "alice", "other")
        assert await service.authentication.by_password("alice", "other")
        with pytest.raises(AuthenticationFailed):
            await service.authentication.by_password("alice", "secret")
        with pytest.raises(ClusterAccessDenied):
            await service.users.set_password(ALICE, "bob", "other")


async def test_a_tenant_knows_its_own_users_only(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        service = BrokerService(node)
        users = service.users
        await users.create(ANYONE, "alice", "secret")
        with pytest.raises(UnknownTenant):
            await users.create(ANYONE, "bob", "secret", tenant="acme")
        await service.tenants.create(ANYONE, "acme", {})
        made = await users.create(OF_ACME, "bob", "secret", tenant="other")
        assert made.tenant == "acme"
        assert [user.name for user in await users.users(OF_ACME)] == ["bob"]
        with pytest.raises(UnknownUser):
            users.user(OF_ACME, "alice")
        for refused in (
            users.delete(OF_ACME, "alice"),
            users.set_password(OF_ACME, "alice", "x"),
            users.set_admin(OF_ACME, "alice", True),
        ):
            with pytest.raises(UnknownUser):
                await refused
        with pytest.raises(UserExists):
            await users.alter_scram(OF_ACME, "alice", {SHA_256: made.scram[SHA_256]})


async def test_one_administrator_is_always_left(open_broker: OpenBroker) -> None:
    """Whichever door is asked: nobody could undo it."""
    async with open_broker(**{"security.enabled": "true"}) as node:
        may = Granted(cluster(Verb.ALTER), cluster(Verb.DESCRIBE))
        service = BrokerService(node, may)
        users = service.users
        await users.create(ANYONE, "root", "secret", is_admin=True)
        await service.tenants.create(ANYONE, "acme", {})
        await users.create(ANYONE, "boss", "secret", is_admin=True, tenant="acme")
        none = {SHA_256: None, SHA_512: None}
        for refused in (
            users.delete(ANYONE, "root"),
            users.set_admin(ANYONE, "root", False),
            users.alter_scram(ANYONE, "root", none),
        ):
            with pytest.raises(LastAdministrator, match="only administrator"):
                await refused
        await users.alter_scram(ANYONE, "root", {SHA_256: None})
        await users.delete(ANYONE, "boss")
        await users.create(ANYONE, "other", "secret", is_admin=True)
        await users.set_admin(ANYONE, "root", False)
        await users.delete(ANYONE, "root")


async def test_the_keys_of_a_deleted_user_are_gone_with_it(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        users = BrokerService(node).users
        await users.create(ANYONE, "alice", "secret")
        await store_keys(node, "alice", 205)
        await store_keys(node, "bob", 1)
        await users.delete(ANYONE, "alice")
        assert list(node.security.image.keys) == ["bob0"]
        assert "alice" not in node.security.image.users
        with pytest.raises(UnknownUser):
            await users.delete(ANYONE, "alice")


async def test_who_loses_its_last_credential_is_gone_unless_it_has_keys(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        users = BrokerService(node).users
        record = (await users.create(ANYONE, "alice", "secret")).scram[SHA_256]
        await users.alter_scram(ANYONE, "bob", {SHA_256: record})
        await users.alter_scram(ANYONE, "alice", {SHA_256: None})
        assert set(users.user(ANYONE, "alice").scram) == {SHA_512}
        await store_keys(node, "alice", 1)
        await users.alter_scram(ANYONE, "alice", {SHA_512: None})
        await users.alter_scram(ANYONE, "bob", {SHA_256: None})
        assert [user.name for user in await users.users(ANYONE)] == ["alice"]
        with pytest.raises(UnknownUser):
            await users.alter_scram(ANYONE, "bob", {SHA_256: None})
