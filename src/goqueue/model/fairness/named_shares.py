"""Shares of things whose names say to which tenant they belong: groups, queues, transactional ids.

Counting goes through all names. It is done only where there are tenants and half of everything is
taken, and what was counted is used for a while: those that were let in meanwhile are added, and
those that went are seen with the next count.
"""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Final

from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.shares import Shares
from goqueue.model.security.tenants import SEPARATOR

# A count of so many takes about 3 ms.
COUNTED_PER_S: Final = 10_000


class NamedShares:
    """`is_secured`: where clients log in, a part is kept for administrators of the cluster."""

    def __init__(self, tenants: Callable[[], Collection[str]], *, is_secured: bool = False) -> None:
        self._tenants = tenants
        self._is_secured = is_secured
        self._held = Headcount()
        self._counted_ms = -math.inf

    def refusal(
        self,
        name: str,
        capacity: int,
        total: int,
        counted: Callable[[], Iterable[tuple[str, int]]],
        now_ms: float,
        *,
        count: int = 1,
        administers_cluster: bool = False,
    ) -> str | None:
        """None: the one to whom `name` belongs may have `count` more where there are `total`, and
        they are counted as made. Else what to say behind the bound itself; nothing where all is
        taken. `counted` are all names, with how many each stands for. `administers_cluster`: who
        asks does, and may use what is kept."""
        shares, tenants = Shares.secured(capacity, is_on=self._is_secured), self._tenants()
        wanted, uses_reserve = total + count, self._is_secured and administers_cluster
        if wanted > capacity - (0 if uses_reserve else shares.reserve):
            return shares.told(wanted)
        if not tenants or wanted <= shares.is_free_below:
            return None
        if not 0 <= now_ms - self._counted_ms < max(1_000, total * 1_000 / COUNTED_PER_S):
            self._counted_ms = now_ms
            self._held = Headcount()
            for each, number in counted():
                self._held.add(party_of_name(each, tenants), number)
        party = party_of_name(name, tenants)
        if not shares.may_add(
            party,
            self._held,
            len(tenants) + 1,
            count=count,
            administers_cluster=uses_reserve,
        ):
            return shares.told(wanted)
        self._held.add(party, count)
        return None

    def count_again(self) -> None:
        """Many have gone at once: the next one is let in by what is left."""
        self._counted_ms = -math.inf


def owner_of(name: str) -> str:
    """Of a tenant's: the tenant. Others may begin with something else."""
    owner, separator, _ = name.partition(SEPARATOR)
    return owner if separator else ""


def party_of_name(name: str, tenants: Collection[str]) -> str:
    owner = owner_of(name)
    return owner if owner in tenants else ""
