"""Who waits: the parties one after the other, each with its first."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """Of a, a, a, b and c, c the order is a, b, c, a, c, a: parties come in the order in which
    they began to wait, and after one was taken from, it stands last."""

    def __init__(self) -> None:
        # In the order in which they are taken from; none is empty.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def count(self, party: str) -> int:
        return len(self._waiting.get(party, ()))

    def add(self, party: str, one: T) -> None:
        self._waiting.setdefault(party, deque()).append(one)
        self._length += 1

    def take(self) -> T:
        """`KeyError` if nobody waits."""
        party, waiting = self._waiting.popitem(last=False)
        one = waiting.popleft()
        if waiting:
            self._waiting[party] = waiting
        self._length -= 1
        return one

    def leave(self, party: str, one: T) -> None:
        """It waits no more, if it did."""
        waiting = self._waiting.get(party, deque())
        if one not in waiting:
            return
        waiting.remove(one)
        self._length -= 1
        if not waiting:
            del self._waiting[party]
