"""Rules as they are kept: made, listed, removed. A rule has no parts that change."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from goqueue.broker.security.tenant_shares import TenantShares
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Put
from goqueue.model.rights import AlterableCluster, DescribableCluster
from goqueue.model.security.rule_filters import RuleFilters
from goqueue.model.security.rules import Rule, RuleFilter, check_rule, rule_id
from goqueue.pace import in_slices
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature

# Each is read at every start and held by every broker, with its place in the index: about 1 KB.
RULES_MAX: Final = 100_000


class RuleBook:
    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, shares: TenantShares
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._shares = shares

    async def matching(
        self, _cluster: DescribableCluster, wanted: Sequence[RuleFilter]
    ) -> list[Rule]:
        return list((await self._matching(wanted)).values())

    async def add(
        self,
        _cluster: AlterableCluster,
        rules: Sequence[Rule],
        *,
        administers_cluster: bool = False,
    ) -> None:
        """Those that are there already stay as they are. `administers_cluster`: who asks does."""
        new: dict[str, Rule] = {}
        async for rule in in_slices(rules):
            check_rule(rule)
            new[rule_id(rule)] = rule
        there = self._follower.image.security.rules
        new = {name: rule for name, rule in new.items() if name not in there}
        for tenant, count in Counter(rule.tenant for rule in new.values()).items():
            self._shares.check(
                keys.SecurityKind.RULE,
                RULES_MAX,
                tenant,
                count=count,
                administers_cluster=administers_cluster,
            )
        if new:
            kind = keys.SecurityKind.RULE
            puts = (Put(*keys.security_entry(kind, name, rule)) for name, rule in new.items())
            await self._changes.write([put async for put in in_slices(puts)], Feature.SECURITY)

    async def remove(self, _cluster: AlterableCluster, wanted: Sequence[RuleFilter]) -> list[Rule]:
        """All that one of the filters takes; returns them."""
        gone = await self._matching(wanted)
        if gone:
            kind = keys.SecurityKind.RULE
            deletes = (Delete(keys.security_key(kind, name)) for name in gone)
            await self._changes.write(
                [delete async for delete in in_slices(deletes)], Feature.SECURITY
            )
        return list(gone.values())

    async def _matching(self, wanted: Sequence[RuleFilter]) -> dict[str, Rule]:
        """In slices: of as many rules as there may be, each of some filters takes 0.3 s to find."""
        filters = RuleFilters(wanted)
        rules = self._follower.image.security.rules
        return {name: rule async for name, rule in in_slices(rules.items()) if filters.take(rule)}
