"""Entries in the order in which they came, and whose they are: so that a flood of one party costs
its own when there is no room."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from goqueue.model.fairness.belongings import Belongings

T = TypeVar("T")


class ByParty(Generic[T]):
    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[str, T]] = OrderedDict()
        # By their numbers.
        self._held: Belongings[int] = Belongings()
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def newest_first(self) -> Iterator[T]:
        return (entry for _, entry in reversed(self._entries.values()))

    def add(self, party: str, entry: T) -> None:
        self._entries[self._next] = party, entry
        self._held.add(party, self._next)
        self._next += 1

    def first(self) -> T | None:
        return next((entry for _, entry in self._entries.values()), None)

    def take_first(self) -> T:
        """There must be one."""
        number, (party, entry) = self._entries.popitem(last=False)
        self._held.remove(party, number)
        return entry

    def gives_way(self, party: str) -> str:
        return self._held.gives_way(party)

    def drop_first_of(self, party: str) -> None:
        self._drop(party, next(iter(self._held.of(party))))

    def drop_last_of(self, party: str) -> None:
        self._drop(party, self._held.last(party))

    def _drop(self, party: str, number: int) -> None:
        del self._entries[number]
        self._held.remove(party, number)
