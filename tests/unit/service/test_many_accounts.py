"""As many users, keys and rules as there may be: nobody waits until all of them are worked on."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from goqueue import pace
from goqueue.broker.node import Node
from goqueue.broker.security.users import DELETES_AT_ONCE
from goqueue.metadata.store import Compare, Op, Put, TxnResult
from goqueue.model.caller import Principal
from goqueue.model.security.keys import AccessKey, KeyKind
from goqueue.model.security.users import User
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.loop_turns import result_and_turns
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SECURED = {"security__enabled": "true", "super__users": "User:root"}
ROOT = replace(ANYONE, principal=Principal("User", "root"))
COUNT = 250


async def store(node: Node, *entries: keys.Entry) -> None:
    done = await node._store.transact([], [Put(*entry) for entry in entries])
    await node._follower.applied(done.revision)


async def store_users(node: Node, tenant: str, count: int) -> None:
    """Each with a key."""
    for number in range(count):
        name, key_id = f"{tenant}{number:04}", f"key{number:04}"
        user = User(name=name, tenant=tenant, created_ms=1)
        key = AccessKey(id=key_id, kind=KeyKind.API, user=name, digest=b"", created_ms=1)
        entries = (
            keys.security_entry(keys.SecurityKind.USER, name, user),
            keys.security_entry(keys.SecurityKind.KEY, key_id, key),
        )
        await store(node, *entries)


async def test_users_of_a_tenant_go_many_in_a_step(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        for tenant in ("acme", "zeta"):
            await service.tenants.create(ROOT, tenant, {})
        await service.users.create(ROOT, "zed", tenant="zeta")
        await store_users(node, "acme", COUNT)
        # One that has more than a step takes.
        many = keys.SecurityKind.KEY
        for number in range(DELETES_AT_ONCE + 5):
            key = AccessKey(
                id=f"m{number}", kind=KeyKind.API, user="acme0007", digest=b"", created_ms=1
            )
            await store(node, keys.security_entry(many, key.id, key))
        steps: list[int] = []
        transact = node._store.transact

        async def counted(
            compares: Sequence[Compare], ops: Sequence[Op], failure_ops: Sequence[Op] = ()
        ) -> TxnResult:
            steps.append(len(ops))
            return await transact(compares, ops, failure_ops)

        monkeypatch.setattr(node._store, "transact", counted)
        await service.tenants.delete(ROOT, "acme", is_forced=True)
        image = node.security.image
        assert not [user for user in image.users.values() if user.tenant == "acme"]
        assert not image.keys
        assert "zed" in image.users
        assert max(steps) <= DELETES_AT_ONCE + 1
        # Two reads and writes for each fifty users, and some for the one that has many keys.
        assert len(steps) < COUNT // 10


@pytest.mark.parametrize("what", ["users", "keys"])
async def test_others_have_their_turns_while_many_are_listed(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each slice has one of them here, so that turns of the loop tell what was done in slices."""
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        await store_users(node, "", COUNT)
        monkeypatch.setattr(pace, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(pace, "SORTED_AT_ONCE", 10)
        if what == "users":
            users, turns = await result_and_turns(service.users.users(ROOT))
            names = [user.name for user in users]
        else:
            found, turns = await result_and_turns(service.keys.keys(ROOT))
            names = [key.user for key in found]
        assert names == sorted(names)
        assert len(names) == COUNT
        assert turns > COUNT
