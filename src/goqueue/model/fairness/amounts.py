"""How much of something the owners of names have: bytes of groups and schemas, partitions of open
transactions.

A machine keeps it as things change, and need not know which tenants there are: an owner is what a
name begins with before the separator. Whether that is a tenant is asked only when shares are.
"""

from collections.abc import Collection, Iterable

from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.named_shares import owner_of, party_of_name
from goqueue.model.fairness.shares import Shares


class Amounts:
    __slots__ = ("_of_owners", "total")

    def __init__(self) -> None:
        self._of_owners: dict[str, int] = {}
        self.total = 0

    def add(self, name: str, amount: int) -> None:
        """Less, if `amount` is negative."""
        if not amount:
            return
        owner = owner_of(name)
        self.total += amount
        now = self._of_owners.get(owner, 0) + amount
        if now:
            self._of_owners[owner] = now
        else:
            del self._of_owners[owner]

    def of_tenants(self, tenants: Collection[str]) -> Iterable[tuple[str, int]]:
        """Those that have some. Whichever are fewer are gone through: anybody can begin names in
        many ways."""
        owners = self._of_owners
        if len(owners) < len(tenants):
            return [(each, amount) for each, amount in owners.items() if each in tenants]
        return [(each, owners[each]) for each in tenants if each in owners]


def room_for(name: str, capacity: int, amounts: Iterable[Amounts], tenants: Collection[str]) -> int:
    """How much more the one to whom `name` belongs may have; negative if there is too much."""
    amounts = tuple(amounts)
    total = sum(each.total for each in amounts)
    if not tenants:
        return capacity - total
    held = Headcount()
    for each in amounts:
        for tenant, amount in each.of_tenants(tenants):
            held.add(tenant, amount)
    held.add("", total - held.total)
    return Shares(capacity).room(party_of_name(name, tenants), held, len(tenants) + 1)
