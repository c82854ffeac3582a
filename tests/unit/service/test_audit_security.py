"""Changes of users, keys, rules and tokens in the audit: who, whom and what, and never a secret."""

import msgspec
import pytest

from goqueue.broker.security.users import records_of
from goqueue.model.audit import Outcome
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.errors import UnknownUser
from goqueue.model.security.keys import KeyKind
from goqueue.model.security.rules import Pattern, Permission, Rule, RuleFilter
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ROOT = Caller(principal=Principal("User", "root"), door=Door.HTTP, address="10.0.0.1")
PASSWORD = "an-open-secret-7"


async def test_users_and_keys(open_broker: OpenBroker) -> None:
    async with open_broker(security__enabled="true", super__users="User:root") as node:
        service = BrokerService(node)
        await service.users.create(ROOT, "alice", PASSWORD, is_admin=True)
        await service.users.set_password(ROOT, "alice", PASSWORD + "!")
        await service.users.set_admin(ROOT, "alice", False)
        await service.users.alter_scram(ROOT, "bob", records_of(PASSWORD))
        made = await service.keys.create(ROOT, "alice", KeyKind.API, label="ci")
        await service.keys.delete(ROOT, made.key.id)
        await service.users.delete(ROOT, "alice")
        with pytest.raises(UnknownUser):
            await service.users.delete(ROOT, "alice")
        right = Access().describable_cluster(ROOT)
        found = (await service.audit.recent(ROOT, limit=100, principal=None, event=None)).entries
        told = [(each.event, each.name, each.outcome) for each in reversed(found)]
        assert told == [
            ("user.create", "alice", Outcome.SUCCESS),
            ("user.password", "alice", Outcome.SUCCESS),
            ("user.admin", "alice", Outcome.SUCCESS),
            ("user.scram", "bob", Outcome.SUCCESS),
            ("key.create", "alice", Outcome.SUCCESS),
            ("key.delete", "", Outcome.SUCCESS),
            ("user.delete", "alice", Outcome.SUCCESS),
            ("user.delete", "alice", Outcome.FAILURE),
        ]
        scram = next(each for each in found if each.event == "user.scram")
        assert scram.detail == {"changes": "SCRAM-SHA-256, SCRAM-SHA-512"}
        text = msgspec.json.encode(found).decode()
        for secret in (PASSWORD, made.secret):
            assert secret not in text
        assert node.audit.figures(right).events["user.delete", "failure"] == 1


async def test_rules(open_broker: OpenBroker) -> None:
    async with open_broker(security__enabled="true", super__users="User:root") as node:
        service = BrokerService(node)
        rule = Rule(
            resource=Resource.TOPIC,
            name="orders-",
            pattern=Pattern.PREFIXED,
            principal="User:alice",
            host="10.0.0.7",
            verb=Verb.READ,
            permission=Permission.DENY,
        )
        await service.rules.add(ROOT, [rule])
        await service.rules.remove(ROOT, [RuleFilter(principal="User:alice")])
        found = (await service.audit.recent(ROOT, limit=100, principal=None, event="rule")).entries
        gone, made = found
        assert made.detail == {"rules": "deny User:alice read topic prefixed orders- from 10.0.0.7"}
        assert gone.detail == {"wanted": "User:alice"}
