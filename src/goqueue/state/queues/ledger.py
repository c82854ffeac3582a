"""The durable state of one queue: a floor, whole blocks settled above it, and blocks of marks."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from goqueue.model.offsets import OffsetRange
from goqueue.state.queues.marks import FRESH, SETTLED, death_of, is_returned
from goqueue.state.queues.pieces import (
    BLOCK_BITS,
    BLOCK_OFFSETS,
    Piece,
    Pieces,
    block_parts,
)
from goqueue.state.queues.range_set import RangeSet
from goqueue.state.queues.records import (
    BlockValue,
    FloorValue,
)

FULL_BLOCK: Final[Pieces[int]] = Pieces([0], [SETTLED])


class Marks(ABC):
    """Reads the marks of offsets; everything below the floor is settled."""

    __slots__ = ()

    floor: int

    @abstractmethod
    def block(self, number: int) -> Pieces[int] | None:
        """The block with this number, or None when all of it is fresh."""

    @abstractmethod
    def full_end(self, number: int) -> int | None:
        """Where the run of whole settled blocks around this one ends, or None."""

    def pieces(self, start: int, end: int) -> Iterator[Piece[int]]:
        """All pieces of [start, end), cut at block ends."""
        if start < self.floor:
            below = min(end, self.floor)
            yield Piece(start, below, SETTLED)
            start = below
        for number, low, high in block_parts(start, end):
            block = self.block(number)
            base = number << BLOCK_BITS
            if block is None:
                yield Piece(base + low, base + high, FRESH)
            else:
                yield from block.between(low, high, base)

    def next_fresh(self, offset: int, end: int) -> OffsetRange | None:
        """The first fresh offsets at or after `offset`, no further than to the end of a block."""
        offset = max(offset, self.floor)
        while offset < end:
            number = offset >> BLOCK_BITS
            full_end = self.full_end(number)
            if full_end is not None:
                offset = full_end << BLOCK_BITS
                continue
            base = number << BLOCK_BITS
            stop = min(end, base + BLOCK_OFFSETS)
            block = self.block(number)
            if block is None:
                return OffsetRange(offset, stop)
            for piece in block.between(offset - base, stop - base, base):
                if piece.value == FRESH:
                    return OffsetRange(piece.start, piece.end)
            offset = stop
        return None


class Ledger(Marks):
    """Changed by replayed records only.

    `blocks` are exactly those that the log has; what they say below the floor counts no more.
    """

    __slots__ = ("blocks", "floor", "full", "generation")

    def __init__(self, generation: int, floor: int) -> None:
        self.generation = generation
        self.floor = floor
        self.full = RangeSet()
        self.blocks: dict[int, Pieces[int]] = {}

    def block(self, number: int) -> Pieces[int] | None:
        if self.full and number in self.full:
            return FULL_BLOCK
        return self.blocks.get(number)

    def full_end(self, number: int) -> int | None:
        return self.full.end_of(number) if self.full else None

    def occupied(self, start: int) -> Iterator[Piece[int]]:
        """All pieces at or above `start` that are not fresh, in order of kind, then offset."""
        start = max(start, self.floor)
        for first, last in self.full:
            if last << BLOCK_BITS > start:
                yield Piece(max(first << BLOCK_BITS, start), last << BLOCK_BITS, SETTLED)
        for number, block in self._blocks_above_floor():
            base = number << BLOCK_BITS
            if base + BLOCK_OFFSETS <= start:
                continue
            for piece in block.between(max(start - base, 0), BLOCK_OFFSETS, base):
                if piece.value != FRESH:
                    yield piece

    def open(self) -> RangeSet:
        """What was delivered, and is neither settled nor dying. A new leader waits for this, and
        there may be as many pieces as offsets: so they are not looked at one by one."""
        starts: list[int] = []
        ends: list[int] = []
        for number, block in self._blocks_above_floor():
            base = number << BLOCK_BITS
            wanted = {mark for mark in set(block.values) if is_returned(mark)}
            following = (*block.starts[1:], BLOCK_OFFSETS)
            pieces = zip(block.starts, following, block.values, strict=True)
            found = [(base + start, base + end) for start, end, mark in pieces if mark in wanted]
            starts += [start for start, _ in found]
            ends += [end for _, end in found]
        floor = self.floor
        if starts and starts[0] < floor:
            below = bisect_right(ends, floor)
            starts, ends = starts[below:], ends[below:]
            if starts:
                starts[0] = max(starts[0], floor)
        return RangeSet.of_sorted(starts, ends)

    def dying(self) -> Iterator[Piece[int]]:
        """What is on its way to the dead letters."""
        for number, block in self._blocks_above_floor():
            if any(map(death_of, set(block.values))):
                base = number << BLOCK_BITS
                low = max(self.floor - base, 0)
                for piece in block.between(low, BLOCK_OFFSETS, base):
                    if death_of(piece.value) is not None:
                        yield piece

    def _blocks_above_floor(self) -> Iterator[tuple[int, Pieces[int]]]:
        """Those of which something counts, in order."""
        for number in sorted(self.blocks):
            if (number + 1) << BLOCK_BITS > self.floor and number not in self.full:
                yield number, self.blocks[number]

    def superseded(self) -> list[int]:
        """Blocks that the floor or the full blocks make redundant."""
        floor_block = self.floor >> BLOCK_BITS
        return sorted(n for n in self.blocks if n < floor_block or n in self.full)

    # --- replay ---------------------------------------------------------------------------

    def replay_floor(self, value: FloorValue) -> None:
        self.floor = max(self.floor, value.floor)
        self.full = RangeSet(value.full)

    def replay_start(self, start: int) -> None:
        self.floor = max(self.floor, start)

    def replay_block(self, number: int, value: BlockValue) -> None:
        self.blocks[number] = Pieces(value.starts, value.marks)
