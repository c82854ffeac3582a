"""What each party has, one behind the other, so that whoever has most can give something up."""

from collections import OrderedDict
from collections.abc import Collection
from typing import Generic, TypeVar

from goqueue.model.fairness.headcount import Headcount

T = TypeVar("T")


class Belongings(Generic[T]):
    """Each thing is there once, and is one party's."""

    def __init__(self) -> None:
        # None of them is empty.
        self._of_party: dict[str, OrderedDict[T, None]] = {}
        self._counts = Headcount()

    def __len__(self) -> int:
        return self._counts.total

    def of(self, party: str) -> Collection[T]:
        """Those that came first, or were not used for longest, stand first."""
        return self._of_party.get(party, ())

    def first(self, party: str) -> T | None:
        return next(iter(self.of(party)), None)

    def last(self, party: str) -> T:
        """There must be one."""
        return next(reversed(self._of_party[party]))

    def add(self, party: str, one: T) -> None:
        """Behind the others of the party."""
        self._of_party.setdefault(party, OrderedDict())[one] = None
        self._counts.add(party)

    def remove(self, party: str, one: T) -> None:
        of_party = self._of_party[party]
        del of_party[one]
        if not of_party:
            del self._of_party[party]
        self._counts.remove(party)

    def used(self, party: str, one: T) -> None:
        """It stands behind the others now."""
        self._of_party[party].move_to_end(one)

    def gives_way(self, newcomer: str) -> str:
        """Whose goes where there is no room for one more of `newcomer`."""
        return self._counts.gives_way(newcomer)
