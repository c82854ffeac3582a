"""A value for every offset, stored as pieces with the same value, in blocks of offsets.

Blocks bound what a change costs: their lists are short however many blocks there are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

V = TypeVar("V")

# A block is also what one durable record holds. Larger ones make a single acknowledgement in the
# middle dearer to store (2 to 4 bytes per piece), smaller ones make more records per range.
BLOCK_BITS: Final = 10
BLOCK_OFFSETS: Final = 1 << BLOCK_BITS
BLOCK_MASK: Final = BLOCK_OFFSETS - 1


class Piece(NamedTuple, Generic[V]):
    start: int
    end: int
    value: V


class Pieces(Generic[V]):
    """A piecewise constant function of the offsets of one block, which count from 0.

    Piece i reaches from `starts[i]` to `starts[i + 1]`, the last one to the end of the block.
    Neighbours differ in value.
    """

    __slots__ = ("starts", "values")

    def __init__(self, starts: list[int], values: list[V]) -> None:
        self.starts = starts
        self.values = values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return self.starts == other.starts and self.values == other.values

    __hash__ = None  # type: ignore[assignment]  # it changes

    def copy(self) -> "Pieces[V]":
        return Pieces(self.starts.copy(), self.values.copy())

    def assign(self, start: int, end: int, value: V) -> None:
        starts, values = self.starts, self.values
        low = bisect_right(starts, start) - 1
        high = bisect_left(starts, end)
        last_end = starts[high] if high < len(starts) else BLOCK_OFFSETS
        last_value = values[high - 1]
        if starts[low] < start:
            joins_left = values[low] == value
            low += 1
        else:
            joins_left = low > 0 and values[low - 1] == value
        new_starts = [] if joins_left else [start]
        new_values = [] if joins_left else [value]
        if last_end > end:
            if last_value != value:
                new_starts.append(end)
                new_values.append(last_value)
        elif high < len(starts) and values[high] == value:
            high += 1
        starts[low:high] = new_starts
        values[low:high] = new_values

    def is_all(self, value: V) -> bool:
        return len(self.values) == 1 and self.values[0] == value

    def between(self, start: int, end: int, base: int) -> Iterator[Piece[V]]:
        """The pieces of [start, end), cut at both ends, with `base` added to their offsets."""
        starts, values = self.starts, self.values
        at = bisect_right(starts, start) - 1
        while start < end:
            at += 1
            stop = min(starts[at], end) if at < len(starts) else end
            yield Piece(base + start, base + stop, values[at - 1])
            start = stop


class BlockMap(Generic[V]):
    """A value for every offset; blocks that have only the default are not stored."""

    __slots__ = ("blocks", "default")

    def __init__(self, default: V) -> None:
        self.default = default
        self.blocks: dict[int, Pieces[V]] = {}

    def assign(self, start: int, end: int, value: V) -> None:
        for number, low, high in block_parts(start, end):
            block = self.blocks.get(number)
            if block is None:
                if value == self.default:
                    continue
                block = self.blocks[number] = Pieces([0], [self.default])
            block.assign(low, high, value)
            if block.is_all(self.default):
                del self.blocks[number]

    def get(self, offset: int) -> V:
        block = self.blocks.get(offset >> BLOCK_BITS)
        if block is None:
            return self.default
        return block.values[bisect_right(block.starts, offset & BLOCK_MASK) - 1]

    def pieces(self, start: int, end: int) -> Iterator[Piece[V]]:
        """All pieces of [start, end), cut at block ends."""
        for number, low, high in block_parts(start, end):
            block = self.blocks.get(number)
            base = number << BLOCK_BITS
            if block is None:
                yield Piece(base + low, base + high, self.default)
            else:
                yield from block.between(low, high, base)

    def occupied(self, start: int, end: int) -> Iterator[Piece[V]]:
        """The pieces of [start, end) that are not the default, however wide the range is."""
        for number in numbers_within(self.blocks, start, end):
            base = number << BLOCK_BITS
            low, high = max(start - base, 0), min(end - base, BLOCK_OFFSETS)
            for piece in self.blocks[number].between(low, high, base):
                if piece.value != self.default:
                    yield piece


def block_parts(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The blocks of [start, end) with the part of each, relative to it."""
    while start < end:
        low = start & BLOCK_MASK
        high = min(BLOCK_OFFSETS, low + end - start)
        yield start >> BLOCK_BITS, low, high
        start += high - low


def numbers_within(blocks: dict[int, Pieces[V]], start: int, end: int) -> list[int]:
    """The numbers of the stored blocks that overlap [start, end), in order."""
    if start >= end:
        return []
    first, last = start >> BLOCK_BITS, (end - 1) >> BLOCK_BITS
    if last - first < len(blocks):
        return [number for number in range(first, last + 1) if number in blocks]
    return sorted(number for number in blocks if first <= number <= last)
