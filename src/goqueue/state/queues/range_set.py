"""A set of whole numbers kept as sorted ranges: offsets, or numbers of blocks."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from goqueue.model.offsets import OffsetRange


class RangeSet:
    """Ranges are disjoint and do not touch. Adding or removing one is O(log n) and a memmove."""

    __slots__ = ("_ends", "_starts", "size")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.size = 0
        for start, end in ranges:
            self.add(start, end)

    @classmethod
    def of_sorted(cls, starts: Sequence[int], ends: Sequence[int]) -> "RangeSet":
        """Of disjoint ranges in order, which may touch: much faster than to add them one by one."""
        new = cls()
        before, after = (None, *ends), (*starts[1:], None)
        new._starts = [start for start, end in zip(starts, before, strict=False) if start != end]
        new._ends = [end for end, start in zip(ends, after, strict=False) if end != start]
        new.size = sum(ends) - sum(starts)
        return new

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        """The number of ranges; `size` is the number of members."""
        return len(self._starts)

    def __iter__(self) -> Iterator[OffsetRange]:
        return map(OffsetRange, self._starts, self._ends)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def copy(self) -> "RangeSet":
        new = RangeSet()
        new._starts = self._starts.copy()
        new._ends = self._ends.copy()
        new.size = self.size
        return new

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        # The ranges that the new one touches or covers become one.
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
            self.size -= sum(ends[low:high]) - sum(starts[low:high])
        starts[low:high] = [start]
        ends[low:high] = [end]
        self.size += end - start

    def remove(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        low, high = bisect_right(ends, start), bisect_left(starts, end)
        if start >= end or low >= high:
            return
        self.size -= sum(ends[low:high]) - sum(starts[low:high])
        rest = [(starts[low], start), (end, ends[high - 1])]
        kept = [(first, last) for first, last in rest if first < last]
        self.size += sum(last - first for first, last in kept)
        starts[low:high] = [first for first, _ in kept]
        ends[low:high] = [last for _, last in kept]

    def within(self, start: int, end: int) -> Iterator[OffsetRange]:
        """What [start, end) has of this set, in order. The set may change only afterwards."""
        at = bisect_right(self._ends, start)
        while at < len(self._starts) and self._starts[at] < end:
            yield OffsetRange(max(self._starts[at], start), min(self._ends[at], end))
            at += 1

    def end_of(self, number: int) -> int | None:
        """The end of the range that holds `number`, or None."""
        at = bisect_right(self._starts, number) - 1
        if at >= 0 and number < self._ends[at]:
            return self._ends[at]
        return None
