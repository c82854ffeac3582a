"""Users, rules, keys and tokens are as many as every broker holds in memory and reads at its start:
tenants divide them, and administrators of the cluster have a part of their own."""

from collections.abc import Mapping
from typing import Final

from goqueue.broker.topics.following import MetadataFollower
from goqueue.model.errors import PolicyViolation
from goqueue.model.fairness.shares import Shares
from goqueue.state.metadata_keys import SecurityKind
from goqueue.state.security.holdings import Holdings

_WORDS: Final[Mapping[SecurityKind, str]] = {
    SecurityKind.RULE: "rules",
    SecurityKind.USER: "users",
    SecurityKind.KEY: "keys",
    SecurityKind.TOKEN: "delegation tokens",
}


class TenantShares:
    def __init__(self, follower: MetadataFollower, *, is_secured: bool) -> None:
        self._follower = follower
        self._is_secured = is_secured
        self._holdings = Holdings()

    @property
    def holdings(self) -> Holdings:
        return self._holdings.use(self._follower.image.security)

    def check(
        self,
        kind: SecurityKind,
        capacity: int,
        tenant: str,
        *,
        count: int = 1,
        administers_cluster: bool,
    ) -> None:
        """Before the tenant gets `count` more of them. `administers_cluster`: who asks does."""
        shares = Shares.secured(capacity, is_on=self._is_secured)
        held, parties = self.holdings.held(kind), len(self._follower.image.security.tenants) + 1
        # Where nobody logs in, everybody may fill all of it.
        may_fill = administers_cluster or not self._is_secured
        if shares.may_add(tenant, held, parties, count=count, administers_cluster=may_fill):
            return
        wanted = held.total + count
        told = f"there can be {capacity} {_WORDS[kind]} at most{shares.told(wanted)}"
        if wanted <= capacity - shares.reserve:
            whose = f"tenant {tenant!r} has" if tenant else "those without a tenant have"
            told += f": {whose} {held[tenant]}, and {shares.promised(parties)} are promised to each"
        raise PolicyViolation(told)
