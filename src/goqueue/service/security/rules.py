"""Rules: listed, made and removed by those who may alter the cluster.

Who belongs to a tenant has to do with the rules of that tenant only.
"""

from collections.abc import Sequence

import msgspec

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.errors import SecurityDisabled
from goqueue.model.security.rules import Rule, RuleFilter
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class RuleService:
    def __init__(self, node: Node, access: Access) -> None:
        self._book = node.security.rule_book
        self._access = access

    def check_used(self, caller: Caller, verb: Verb) -> None:
        """For Kafka, which has no rules while nothing is decided by them. Who may not see them is
        not told that either."""
        if verb is Verb.DESCRIBE:
            self._access.describable_accounts(caller)
        else:
            self._access.alterable_accounts(caller)
        if not self._access.has_rules:
            raise SecurityDisabled("there are no rules while security.enabled is false")

    async def rules(self, caller: Caller, wanted: Sequence[RuleFilter]) -> list[Rule]:
        """Those that one of the filters takes."""
        cluster = self._access.describable_accounts(caller)
        return await self._book.matching(cluster, [_within(caller, each) for each in wanted])

    @audited("rule.create", Resource.CLUSTER, detail=("rules",))
    async def add(self, caller: Caller, rules: Sequence[Rule]) -> None:
        """All of them or, if one is not as it must be, none."""
        cluster = self._access.alterable_accounts(caller)
        tenant = caller.principal.tenant
        if tenant:
            rules = [msgspec.structs.replace(rule, tenant=tenant) for rule in rules]
        administers_cluster = self._access.administers_cluster(caller)
        await self._book.add(cluster, rules, administers_cluster=administers_cluster)

    @audited("rule.delete", Resource.CLUSTER, detail=("wanted",))
    async def remove(self, caller: Caller, wanted: Sequence[RuleFilter]) -> list[Rule]:
        """Those that one of the filters takes; returns them."""
        cluster = self._access.alterable_accounts(caller)
        return await self._book.remove(cluster, [_within(caller, each) for each in wanted])


def _within(caller: Caller, wanted: RuleFilter) -> RuleFilter:
    tenant = caller.principal.tenant
    return msgspec.structs.replace(wanted, tenant=tenant) if tenant else wanted
