"""The real rules, for a user who has those that a test gives and no others."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from goqueue.broker.security.stored_rules import StoredRules
from goqueue.model.caller import Caller, Principal
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.rules import ANY, Pattern, Permission, Rule, rule_id
from goqueue.model.transactions.group_names import group_key
from goqueue.service.needs import Need
from goqueue.state.parted_map import PartedMap
from goqueue.state.security.decisions import IMPLIED_BY
from goqueue.state.security.image import SecurityImage
from tests.access.canaries import GROUP
from tests.access.rule_sets import Asked, alternatives

_ALICE = Principal("User", "alice")
# How the things are called that requests name, and what belongs to them.
_PREFIXES = {
    Resource.TOPIC: ("canary",),
    Resource.GROUP: ("canary", SQS_GROUP),
    Resource.TRANSACTIONAL_ID: ("canary", group_key(GROUP)),
    Resource.SUBJECT: ("canary", ":.canary"),
    Resource.USER: ("User:canary",),
}
_OTHERS = (Resource.CLUSTER, Resource.DELEGATION_TOKEN)


class ExactRights:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self._stored = StoredRules(())
        self.asked: set[Asked] = set()

    def give(self, allowed: Iterable[Asked], denied: Iterable[Asked] = ()) -> None:
        """Exactly these, of what is called as the canaries are."""
        rules = [rule for each in allowed for rule in _rules(*each, Permission.ALLOW)]
        rules += [rule for each in denied for rule in _rules(*each, Permission.DENY)]
        self._stored.use(SecurityImage(rules=PartedMap({rule_id(rule): rule for rule in rules})))
        self.asked.clear()

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        self.asked.add((resource, verb))
        return self._stored.allows(replace(caller, principal=_ALICE), resource, name, verb)


def _rules(resource: Resource, verb: Verb, permission: Permission) -> list[Rule]:
    def rule(name: str, pattern: Pattern) -> Rule:
        return Rule(
            resource=resource,
            name=name,
            pattern=pattern,
            principal=str(_ALICE),
            verb=verb,
            permission=permission,
        )

    if resource is Resource.CLUSTER:
        return [rule(CLUSTER_NAME, Pattern.LITERAL)]
    if resource is Resource.DELEGATION_TOKEN:
        # Their ids are random.
        return [rule(ANY, Pattern.LITERAL)]
    return [rule(name, Pattern.PREFIXED) for name in _PREFIXES[resource]]


EVERYTHING = frozenset((resource, verb) for resource in (*_PREFIXES, *_OTHERS) for verb in Verb)


def needed(needs: Iterable[Need]) -> set[Asked]:
    return {(need.resource, need.verb) for need in needs}


class AllBut(NamedTuple):
    """What is needed without one thing. That is denied where the rest implies it."""

    allowed: set[Asked]
    denied: set[Asked]


NOTHING = AllBut(set(), set())


def all_but(needs: Iterable[Need], removed: Need) -> AllBut:
    one = (removed.resource, removed.verb)
    rest = needed(needs) - {one} - alternatives(removed)
    if one == (Resource.CLUSTER, Verb.IDEMPOTENT_WRITE):
        # Who may write to some topic may do this as well, whatever is denied (KIP-679).
        return AllBut(rest - {(Resource.TOPIC, Verb.WRITE)}, set())
    implying = {(removed.resource, verb) for verb in IMPLIED_BY.get(removed.verb, ())}
    return AllBut(rest, {one} if rest & implying else set())
