"""What waits in memory: one entry per message that falls due soon.

Columns instead of objects: an entry takes about 40 bytes, and its number in `_places` some 110.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.state.delays.wheel import TimerWheel


class Entry(NamedTuple):
    """A message that waits. `number` is its place in the order of arrival."""

    number: int
    due_ms: int
    target: int
    offset: int
    size_bytes: int


class PendingTable:
    """Entries by number, each with a timer until it has fallen due."""

    __slots__ = ("_free", "_numbers", "_offsets", "_places", "_sizes", "_targets", "wheel")

    def __init__(self, now_ms: int) -> None:
        self._places: dict[int, int] = {}
        self._free = array("i")
        self._numbers = array("q")
        self._offsets = array("q")
        self._targets = array("i")
        self._sizes = array("i")
        self.wheel = TimerWheel(now_ms, self._numbers)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def add(self, entry: Entry) -> None:
        number, due_ms, target, offset, size_bytes = entry
        if self._free:
            place = self._free.pop()
            self._numbers[place] = number
            self._offsets[place] = offset
            self._targets[place] = target
            self._sizes[place] = size_bytes
        else:
            place = len(self._numbers)
            self._numbers.append(number)
            self._offsets.append(offset)
            self._targets.append(target)
            self._sizes.append(size_bytes)
        self._places[number] = place
        self.wheel.add(place, due_ms)

    def get(self, number: int) -> Entry | None:
        place = self._places.get(number)
        if place is None:
            return None
        return Entry(
            number,
            self.wheel.due_ms(place),
            self._targets[place],
            self._offsets[place],
            self._sizes[place],
        )

    def rows(self, numbers: Iterable[int]) -> list[int]:
        """The fields of those of these entries that are here, all in one list."""
        places, wheel = self._places, self.wheel
        offsets, targets, sizes = self._offsets, self._targets, self._sizes
        found: list[int] = []
        for number in numbers:
            place = places.get(number)
            if place is not None:
                due_ms = wheel.due_ms(place)
                found += (number, due_ms, targets[place], offsets[place], sizes[place])
        return found

    def move(self, number: int, offset: int) -> None:
        """The message was written again at another offset."""
        self._offsets[self._places[number]] = offset

    def remove(self, number: int) -> Entry | None:
        entry = self.get(number)
        if entry is not None:
            place = self._places.pop(number)
            if self.wheel.is_waiting(place):
                self.wheel.remove(place)
            self._free.append(place)
        return entry

    def pop_due(self, now_ms: int, limit: int) -> list[int]:
        """Numbers of entries that fell due, in order; they stay here until removed."""
        return [self._numbers[place] for place in self.wheel.pop_due(now_ms, limit)]
