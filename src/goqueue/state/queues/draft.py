"""A command's view of a ledger: what it wants to change, and the records that say so."""

from goqueue.model.queues.messages import QueueKey
from goqueue.state.machine import StateRecord
from goqueue.state.queues.ledger import FULL_BLOCK, Ledger, Marks
from goqueue.state.queues.marks import FRESH, SETTLED
from goqueue.state.queues.pieces import (
    BLOCK_BITS,
    BLOCK_MASK,
    BLOCK_OFFSETS,
    Pieces,
    block_parts,
    numbers_within,
)
from goqueue.state.queues.range_set import RangeSet
from goqueue.state.queues.records import (
    BlockValue,
    FloorValue,
    block_record,
    block_tombstones,
    floor_record,
)


class Draft(Marks):
    """Marks as a command wants them: reads through to the ledger, which stays as it is."""

    __slots__ = ("_changed", "_filled", "_full", "_ledger", "floor")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.floor = ledger.floor
        self._changed: dict[int, Pieces[int]] = {}
        # A copy once a block was filled; until then the ledger's own.
        self._full: RangeSet | None = None
        self._filled: set[int] = set()

    def block(self, number: int) -> Pieces[int] | None:
        full = self._full if self._full is not None else self._ledger.full
        if full and number in full:
            return FULL_BLOCK
        changed = self._changed.get(number)
        return self._ledger.blocks.get(number) if changed is None else changed

    def full_end(self, number: int) -> int | None:
        return (self._full if self._full is not None else self._ledger.full).end_of(number)

    def assign(self, start: int, end: int, mark: int) -> None:
        """Mark offsets that are not settled yet."""
        for number, low, high in block_parts(start, end):
            self._writable(number).assign(low, high, mark)

    def settle(self, start: int, end: int) -> None:
        """Wide ranges cost no more than narrow ones: whole blocks are settled as runs."""
        start = max(start, self.floor)
        whole_start = -(-start // BLOCK_OFFSETS)
        whole_end = end >> BLOCK_BITS
        if whole_start < whole_end:
            self._fill(whole_start, whole_end)
            self._settle_part(start, whole_start << BLOCK_BITS)
            self._settle_part(whole_end << BLOCK_BITS, end)
        else:
            self._settle_part(start, end)

    def _settle_part(self, start: int, end: int) -> None:
        for number, low, high in block_parts(start, end):
            if self.block(number) is FULL_BLOCK:
                continue
            block = self._writable(number)
            block.assign(low, high, SETTLED)
            if block.is_all(SETTLED):
                self._fill(number, number + 1)

    def _writable(self, number: int) -> Pieces[int]:
        block = self._changed.get(number)
        if block is None:
            stored = self._ledger.blocks.get(number)
            block = Pieces([0], [FRESH]) if stored is None else stored.copy()
            self._changed[number] = block
        return block

    def _fill(self, first: int, last: int) -> None:
        if self._full is None:
            self._full = self._ledger.full.copy()
        self._full.add(first, last)
        start, end = first << BLOCK_BITS, last << BLOCK_BITS
        self._filled.update(numbers_within(self._ledger.blocks, start, end))
        for number in numbers_within(self._changed, start, end):
            del self._changed[number]

    def records(self, key: QueueKey) -> list[StateRecord]:
        """What must be stored. The floor comes first: what it covers may be lost after it."""
        if not self._changed and self._full is None:
            return []
        ledger = self._ledger
        floor = self._next_floor()
        records: list[StateRecord] = []
        if floor != ledger.floor or self._full is not None:
            full = (ledger.full if self._full is None else self._full).copy()
            full.remove(0, floor >> BLOCK_BITS)
            records.append(floor_record(key, FloorValue(ledger.generation, floor, list(full))))
        floor_block = floor >> BLOCK_BITS
        passed = numbers_within(ledger.blocks, ledger.floor, floor_block << BLOCK_BITS)
        records += block_tombstones(key, sorted(self._filled.union(passed)))
        for number, block in self._changed.items():
            if number >= floor_block and self._differs(number, block, floor):
                value = BlockValue(ledger.generation, block.starts, block.values)
                records.append(block_record(key, number, value))
        return records

    def _differs(self, number: int, block: Pieces[int], floor: int) -> bool:
        """Whether the block says more than the floor and what is stored of it. Cuts it there."""
        stored = self._ledger.blocks.get(number)
        below = floor - (number << BLOCK_BITS)
        if below > 0:
            block.assign(0, below, FRESH)
            if stored is not None:
                stored = stored.copy()
                stored.assign(0, below, FRESH)
        return not block.is_all(FRESH) if stored is None else block != stored

    def _next_floor(self) -> int:
        floor = self.floor
        while True:
            number = floor >> BLOCK_BITS
            full_end = self.full_end(number)
            if full_end is not None:
                floor = full_end << BLOCK_BITS
                continue
            block = self.block(number)
            if block is None:
                return floor
            for piece in block.between(floor & BLOCK_MASK, BLOCK_OFFSETS, number << BLOCK_BITS):
                if piece.value != SETTLED:
                    return piece.start
            floor = (number + 1) << BLOCK_BITS
