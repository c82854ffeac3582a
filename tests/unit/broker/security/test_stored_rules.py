"""What is decided by users, super users, tenants and rules together, and remembered."""

import pytest

from goqueue.broker.security import stored_rules
from goqueue.broker.security.stored_rules import StoredRules
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.rules import Permission, Rule, rule_id
from goqueue.model.security.users import User
from goqueue.state.parted_map import PartedMap
from goqueue.state.security.image import SecurityImage


def caller(name: str, tenant: str = "", *, kind: str = "User", address: str = "10.0.0.1") -> Caller:
    return Caller(principal=Principal(kind, name, tenant), door=Door.KAFKA, address=address)


def allow(principal: str, name: str, tenant: str = "", host: str = "*") -> Rule:
    return Rule(
        resource=Resource.TOPIC,
        name=name,
        principal=principal,
        verb=Verb.READ,
        tenant=tenant,
        host=host,
    )


def image(*rules: Rule) -> SecurityImage:
    users = [
        User(name="root", is_admin=True),
        User(name="alice"),
        User(name="boss", tenant="acme", is_admin=True),
        User(name="anna", tenant="acme"),
    ]
    return SecurityImage(
        users=PartedMap({user.name: user for user in users}),
        rules=PartedMap({rule_id(rule): rule for rule in rules}),
    )


def decided_by(*rules: Rule) -> StoredRules:
    stored = StoredRules(("User:super",))
    stored.use(image(*rules))
    return stored


def may_read(stored: StoredRules, who: Caller, name: str) -> bool:
    return stored.allows(who, Resource.TOPIC, name, Verb.READ)


def test_those_who_may_everything() -> None:
    stored = decided_by()
    deny_all = Rule(
        resource=Resource.TOPIC, name="*", principal="User:*", permission=Permission.DENY
    )
    denied = decided_by(deny_all)
    for who in (caller("root"), caller("super"), caller("brokers", kind="Broker")):
        for rules in (stored, denied):
            assert may_read(rules, who, "orders")
            assert rules.allows(who, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)


def test_nobody_else_without_a_rule() -> None:
    stored = decided_by()
    for who in (
        caller("alice"),
        caller("stranger"),
        caller("root", "acme"),
        caller("super", "acme"),
        caller("boss"),
    ):
        for verb in Verb:
            for resource in Resource:
                assert not stored.allows(who, resource, "orders", verb)


def test_an_administrator_of_a_tenant_may_do_everything_there() -> None:
    """What of the cluster is the tenant's, `service/security/ownership.py` decides."""
    stored, boss = decided_by(), caller("boss", "acme")
    assert may_read(stored, boss, "orders")
    assert stored.allows(boss, Resource.CLUSTER, CLUSTER_NAME, Verb.CREATE)


def test_rules_count_within_their_tenant() -> None:
    stored = decided_by(allow("User:*", "*"), allow("User:anna", "orders", "acme"))
    assert may_read(stored, caller("alice"), "orders")
    assert may_read(stored, caller("alice"), "other@orders")
    assert may_read(stored, caller("anna", "acme"), "orders")
    assert not may_read(stored, caller("anna", "acme"), "other")


def test_hosts_are_those_of_callers() -> None:
    stored = decided_by(allow("User:alice", "orders", host="10.0.0.1"))
    assert may_read(stored, caller("alice"), "orders")
    assert may_read(stored, caller("alice", address="::ffff:10.0.0.1"), "orders")
    assert not may_read(stored, caller("alice", address="10.0.0.2"), "orders")


def test_a_change_counts_at_once() -> None:
    rule = allow("User:alice", "orders")
    stored = decided_by()
    assert not may_read(stored, caller("alice"), "orders")
    stored.use(image(rule))
    assert may_read(stored, caller("alice"), "orders")
    stored.use(image())
    assert not may_read(stored, caller("alice"), "orders")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rules, "REMEMBERED_MAX", 10)
    stored = decided_by(allow("User:alice", "7"))
    for number in range(100):
        assert may_read(stored, caller("alice"), str(number)) is (number == 7)
        assert len(stored._remembered) <= 10
    before = len(stored._remembered)
    assert not may_read(stored, caller("alice"), "x" * 10_000)
    assert len(stored._remembered) == before
