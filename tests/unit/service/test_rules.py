"""Rules through the doorway: made once, found, removed, and kept over a restart."""

import pytest

from goqueue import pace
from goqueue.broker.node import Node
from goqueue.broker.security import rules as stored
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import (
    ClusterAccessDenied,
    InvalidRequest,
    PolicyViolation,
)
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.rules import Rule, RuleFilter
from goqueue.service.broker_service import BrokerService
from goqueue.state.security.decisions import Decisions
from tests.loop_turns import result_and_turns
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALICE = Caller(principal=Principal("User", "alice"), door=Door.KAFKA)
ROOT = Caller(principal=Principal("User", "root"), door=Door.KAFKA)
SECURED = {"security__enabled": "true", "super__users": "User:root"}
ALL = RuleFilter()


def read(name: str, principal: str = "User:alice") -> Rule:
    return Rule(resource=Resource.TOPIC, name=name, principal=principal, verb=Verb.READ)


async def test_a_rule_is_there_once(open_broker: OpenBroker) -> None:
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        await rules.add(ROOT, [read("orders"), read("orders")])
        revision = node.image.revision
        await rules.add(ROOT, [read("orders")])
        assert await rules.rules(ROOT, [ALL]) == [read("orders")]
        assert node.image.revision == revision
    async with open_broker(**SECURED) as node:
        assert await BrokerService(node).rules.rules(ROOT, [ALL]) == [read("orders")]


async def test_rules_decide_from_then_on(open_broker: OpenBroker) -> None:
    async with open_broker(**SECURED) as node:
        service = BrokerService(node)
        assert not _sees(node, "orders")
        await service.rules.add(ROOT, [read("orders")])
        assert _sees(node, "orders")
        assert await service.rules.remove(ROOT, [RuleFilter(name="orders")]) == [read("orders")]
        assert not _sees(node, "orders")
        assert await service.rules.remove(ROOT, [RuleFilter(name="orders")]) == []


def _sees(node: Node, name: str) -> bool:
    return node.security.rules.allows(ALICE, Resource.TOPIC, name, Verb.DESCRIBE)


async def test_more_than_one_transaction_holds(open_broker: OpenBroker) -> None:
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        await rules.add(ROOT, [read(f"topic-{number}") for number in range(500)])
        assert len(await rules.rules(ROOT, [ALL])) == 500
        assert len(await rules.remove(ROOT, [RuleFilter(name="topic-7"), ALL])) == 500
        assert await rules.rules(ROOT, [ALL]) == []


async def test_all_or_none(open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "RULES_MAX", 2)
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        with pytest.raises(InvalidRequest):
            await rules.add(ROOT, [read("a"), read("")])
        with pytest.raises(PolicyViolation, match="2 rules"):
            await rules.add(ROOT, [read("a"), read("b"), read("c")])
        assert await rules.rules(ROOT, [ALL]) == []
        await rules.add(ROOT, [read("a"), read("b"), read("a")])
        await rules.add(ROOT, [read("b")])


async def test_who_may(open_broker: OpenBroker) -> None:
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        with pytest.raises(ClusterAccessDenied):
            await rules.rules(ALICE, [ALL])
        with pytest.raises(ClusterAccessDenied):
            await rules.add(ALICE, [read("orders")])
        with pytest.raises(ClusterAccessDenied):
            await rules.remove(ALICE, [ALL])
        see = Rule(
            resource=Resource.CLUSTER,
            name=CLUSTER_NAME,
            principal="User:alice",
            verb=Verb.DESCRIBE,
        )
        await rules.add(ROOT, [see])
        assert await rules.rules(ALICE, [ALL]) == [see]
        with pytest.raises(ClusterAccessDenied):
            await rules.add(ALICE, [read("orders")])


async def test_others_have_their_turns_while_many_are_made_and_removed(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice has one rule here, so that turns of the loop tell what was done in slices."""
    monkeypatch.setattr(pace, "SLICE_SECONDS", 0.0)
    count = 500
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        made = [read(f"topic-{number}") for number in range(count)]
        _, turns = await result_and_turns(rules.add(ROOT, made))
        assert turns > count
        found, turns = await result_and_turns(rules.rules(ROOT, [ALL]))
        assert len(found) == count
        assert turns > count
        gone, turns = await result_and_turns(rules.remove(ROOT, [ALL]))
        assert len(gone) == count
        assert turns > count


async def test_a_change_of_some_rules_looks_at_no_other(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every broker would be held up for as long as it takes to look at all of them."""
    async with open_broker(**SECURED) as node:
        rules = BrokerService(node).rules
        await rules.add(ROOT, [read(f"topic-{number}") for number in range(500)])
        changed: list[int] = []
        change = Decisions.change

        def counted(self: Decisions, added: list[Rule], removed: list[Rule]) -> None:
            changed.append(len(added) + len(removed))
            change(self, added, removed)

        monkeypatch.setattr(Decisions, "change", counted)
        await rules.remove(ROOT, [RuleFilter(name="topic-7")])
        await rules.add(ROOT, [read("topic-7")])
        assert changed == [1, 1]
