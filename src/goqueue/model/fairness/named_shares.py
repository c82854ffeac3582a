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
    def __init__(self, tenants: Callable[[], Collection[str]]) -> None:
        self._tenants = tenants
        self._held = Headcount()
        self._counted_ms = -math.inf

    def has_room(
        self,
        name: str,
        capacity: int,
        total: int,
        counted: Callable[[], Iterable[tuple[str, int]]],
        now_ms: float,
        *,
        count: int = 1,
        reserve: int = 0,
        administers_cluster: bool = False,
    ) -> bool:
        """Whether the one to whom `name` belongs may have `count` more where there are `total`;
        then they are counted as made. `counted` are all names, with how many each stands for.
        `administers_cluster`: who asks may use the reserve."""
        shares, tenants = Shares(capacity, reserve), self._tenants()
        if total + count > capacity - (0 if administers_cluster else reserve):
            return False
        if not tenants or total + count <= shares.is_free_below:
            return True
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
            administers_cluster=administers_cluster,
        ):
            return False
        self._held.add(party, count)
        return True

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
