"""Policies of queues while rules are in force: each is as good as the rules that it becomes.

Those of a tenant's queue are rules of the tenant, by the names that it uses.
"""

import msgspec

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.queues.policy_rules import rules_of
from goqueue.model.queues.refusals import InvalidAttribute
from goqueue.model.rights import Resource
from goqueue.model.security.rules import PatternFilter, Rule, RuleFilter
from goqueue.model.security.tenants import local_name
from goqueue.service.security.access import Access


class QueuePolicies:
    def __init__(self, node: Node, access: Access) -> None:
        self._book = node.security.rule_book
        self._access = access

    def check(self, caller: Caller, queue: str, policy: str | None = None) -> None:
        """Before a policy is kept: whether its rules may be made, and all of it becomes rules.
        Nothing is asked while there are no rules.

        It takes the same right as to make these rules by themselves.
        """
        if self._access.has_rules:
            self._access.alterable_accounts(caller)
            rules_of(policy or "", queue)

    async def apply(self, caller: Caller, queue: str, old: str, new: str) -> None:
        """Once it is kept. The right to be in the group of SQS stays, as other queues need it."""
        if not self._access.has_rules:
            return
        cluster = self._access.alterable_accounts(caller)
        tenant = caller.principal.tenant
        wanted = _within(tenant, rules_of(new, queue))
        ended = [
            _only(rule)
            for rule in _within(tenant, _rules_of_old(old, queue))
            if rule not in wanted and rule.resource is Resource.TOPIC
        ]
        administers_cluster = self._access.administers_cluster(caller)
        await self._book.add(cluster, wanted, administers_cluster=administers_cluster)
        if ended:
            await self._book.remove(cluster, ended)


def _within(tenant: str, rules: list[Rule]) -> list[Rule]:
    return [
        msgspec.structs.replace(rule, tenant=tenant, name=local_name(tenant, rule.name))
        for rule in rules
    ]


def _rules_of_old(policy: str, queue: str) -> list[Rule]:
    """One from a time without rules need not be any."""
    try:
        return rules_of(policy, queue)
    except InvalidAttribute:
        return []


def _only(rule: Rule) -> RuleFilter:
    return RuleFilter(
        resource=rule.resource,
        name=rule.name,
        pattern=PatternFilter.LITERAL,
        principal=rule.principal,
        host=rule.host,
        verb=rule.verb or "all",
        permission=rule.permission,
        tenant=rule.tenant,
    )
