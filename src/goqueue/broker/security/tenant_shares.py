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
        if shares.may_add(
            tenant, held, parties, count=count, administers_cluster=administers_cluster
        ):
            return
        what = _WORDS[kind]
        if held.total + count > capacity:
            raise PolicyViolation(f"there can be {capacity} {what} at most")
        if held.total + count > capacity - shares.reserve:
            raise PolicyViolation(
                f"there can be {capacity} {what} at most, and the last {shares.reserve} are for "
                "administrators of the cluster"
            )
        whose = f"tenant {tenant!r} has" if tenant else "those without a tenant have"
        raise PolicyViolation(
            f"{what}: {whose} {held[tenant]} and no share for {count} more, of the {capacity} "
            f"that there can be; {shares.promised(parties)} are promised to each tenant"
        )
