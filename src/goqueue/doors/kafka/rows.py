"""Arrays of answers whose elements are made when they are written.

Of a large answer, there is then never more in memory than the bytes it becomes: the settings of
five thousand topics are a quarter of a million mappings, and two hundred megabytes as such.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from goqueue.doors.kafka.wire.writing import Message

T = TypeVar("T")


class Rows(Generic[T]):
    """`elements`: how many there are with those inside of them."""

    __slots__ = ("_items", "_make", "elements")

    def __init__(
        self, items: Sequence[T], make: Callable[[T], Message], *, elements: int | None = None
    ) -> None:
        self._items = items
        self._make = make
        self.elements = len(items) if elements is None else elements

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Message]:
        return map(self._make, self._items)

    def changed(self, change: Callable[[Message], Message]) -> "Rows[T]":
        """The same rows, each changed when it is made."""
        make = self._make
        return Rows(self._items, lambda item: change(make(item)), elements=self.elements)
