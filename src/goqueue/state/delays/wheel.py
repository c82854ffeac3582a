"""A hierarchical timer wheel over numbered timers.

Time runs in ticks of 10 ms. Level 0 has a slot for each of 256 ticks (2.56 s); each slot of level
1 stands for one turn of level 0 (64 of them: 2.73 min), of level 2 for one of level 1 (2.91 h), of
level 3 for one of level 2 (7.76 days). Timers beyond wait in one more slot for the next turn.
A timer lies on the level of the highest bit in which its tick differs from the wheel's own, so no
slot ever holds timers of two turns, and each timer moves down at most four times.

Slots are doubly linked lists through two integer columns: adding and removing are O(1), and a timer
costs 16 bytes.
"""

from array import array
from typing import Final

TICK_MS: Final = 10
HORIZON_MS: Final = TICK_MS << 26

# (number of the level's first slot, bits of a tick below the level, slots less one)
_LEVELS: Final = ((0, 0, 255), (256, 8, 63), (320, 14, 63), (384, 20, 63))
_BEYOND: Final = 448
_SLOTS: Final = 449

# Columns grow by this part of their length: fewer steps, little to spare.
_GROWTH: Final = 16

_END: Final = -1
_UNLINKED: Final = -1
# In the `previous` column a slot's first timer has the slot, as a negative number below this.
_FIRST: Final = -2
_NEVER_MS: Final = (1 << 63) - 1


class TimerWheel:
    """Timers are named by small numbers that the caller hands out and may reuse.

    Of two timers due at the same time, the one with the smaller `arrivals` entry comes first.
    """

    __slots__ = (
        "_arrivals",
        "_due_ms",
        "_earliest_ms",
        "_heads",
        "_next",
        "_occupied",
        "_previous",
        "_tick",
    )

    def __init__(self, now_ms: int, arrivals: "array[int]") -> None:
        self._tick = now_ms // TICK_MS
        self._arrivals = arrivals
        self._due_ms = array("q")
        self._next = array("i")
        self._previous = array("i")
        self._heads = array("i", [_END]) * _SLOTS
        # Bit n of a level: its slot n is not empty. The last is for the slot beyond.
        self._occupied = [0, 0, 0, 0, 0]
        # The earliest time of each slot; a lower bound once timers were removed from it.
        self._earliest_ms = array("q", [_NEVER_MS]) * _SLOTS

    @property
    def now_ms(self) -> int:
        """How far the wheel has turned."""
        return self._tick * TICK_MS

    def due_ms(self, timer: int) -> int:
        return self._due_ms[timer]

    def is_waiting(self, timer: int) -> bool:
        return self._previous[timer] != _UNLINKED

    def add(self, timer: int, due_ms: int) -> None:
        """Wait until `due_ms`; a time that has passed is due at the next tick."""
        if timer >= len(self._due_ms):
            missing = timer + 1 - len(self._due_ms) + timer // _GROWTH
            self._due_ms.extend(array("q", [0]) * missing)
            self._next.extend(array("i", [_END]) * missing)
            self._previous.extend(array("i", [_UNLINKED]) * missing)
        self._due_ms[timer] = due_ms
        self._link(timer, due_ms)

    def _link(self, timer: int, due_ms: int) -> None:
        now = self._tick
        tick = -(-due_ms // TICK_MS)  # rounded up: never early
        if tick <= now:
            tick = now + 1
        differs = tick ^ now
        if differs < 1 << 8:
            level, at = 0, tick & 255
            slot = at
        elif differs < 1 << 14:
            level, at = 1, tick >> 8 & 63
            slot = 256 + at
        elif differs < 1 << 20:
            level, at = 2, tick >> 14 & 63
            slot = 320 + at
        elif differs < 1 << 26:
            level, at = 3, tick >> 20 & 63
            slot = 384 + at
        else:
            level, at, slot = 4, 0, _BEYOND
        head = self._heads[slot]
        self._next[timer] = head
        self._previous[timer] = _FIRST - slot
        if head == _END:
            self._occupied[level] |= 1 << at
            self._earliest_ms[slot] = due_ms
        else:
            self._previous[head] = timer
            if due_ms < self._earliest_ms[slot]:
                self._earliest_ms[slot] = due_ms
        self._heads[slot] = timer

    def remove(self, timer: int) -> None:
        """Forget a timer that waits."""
        before = self._previous[timer]
        after = self._next[timer]
        self._previous[timer] = _UNLINKED
        if after != _END:
            self._previous[after] = before
        if before >= 0:
            self._next[before] = after
            return
        slot = _FIRST - before
        self._heads[slot] = after
        if after == _END:
            self._empty(slot)

    def pop_due(self, now_ms: int, limit: int) -> list[int]:
        """Turn the wheel to `now_ms` and return what fell due, in order.

        Stops after the tick that brings `limit` timers: call again while the list is that long.
        """
        due: list[int] = []
        end = now_ms // TICK_MS
        while self._tick < end and len(due) < limit:
            tick = min(self._next_stop(), end)
            self._tick = tick
            self._turn(tick)
            if self._occupied[0] >> (tick & 255) & 1:
                timers = self._drain(tick & 255)
                timers.sort(key=self._arrivals.__getitem__)
                timers.sort(key=self._due_ms.__getitem__)
                due += timers
        return due

    def rewind(self, now_ms: int) -> None:
        """Turn back to `now_ms`: the clock was set back. Walks all timers."""
        timers = [timer for slot in range(_SLOTS) for timer in self._drain(slot)]
        self._tick = now_ms // TICK_MS
        for timer in timers:
            self._link(timer, self._due_ms[timer])

    def next_stop_ms(self) -> int | None:
        """When to call `pop_due` next: a timer falls due or must move to a finer level."""
        return self._next_stop() * TICK_MS if any(self._occupied) else None

    def earliest_due_ms(self) -> int | None:
        """When the next timer falls due; too early if the first one was removed."""
        for level, (first_slot, _, _) in enumerate(_LEVELS):
            if self._occupied[level]:
                lowest = self._occupied[level] & -self._occupied[level]
                return self._earliest_ms[first_slot + lowest.bit_length() - 1]
        return self._earliest_ms[_BEYOND] if self._occupied[4] else None

    def _next_stop(self) -> int:
        """The first tick after the present at which a slot is reached that is not empty."""
        for level, (_, shift, last) in enumerate(_LEVELS):
            ahead = self._occupied[level] >> ((self._tick >> shift & last) + 1)
            if ahead:
                steps = (ahead & -ahead).bit_length()
                return ((self._tick >> shift) + steps) << shift
        # The turn of level 3 that the earliest of those beyond belongs to.
        turn = max(self._earliest_ms[_BEYOND] // TICK_MS >> 26, (self._tick >> 26) + 1)
        return turn << 26

    def _turn(self, tick: int) -> None:
        """Bring timers of coarser slots that begin at this tick to finer ones."""
        if tick & 0x3FFFFFF == 0:
            self._relink(_BEYOND)
        for first_slot, shift, last in _LEVELS[:0:-1]:
            if tick & ((1 << shift) - 1) == 0:
                self._relink(first_slot + (tick >> shift & last))

    def _relink(self, slot: int) -> None:
        for timer in self._drain(slot):
            due_ms = self._due_ms[timer]
            if due_ms <= self._tick * TICK_MS:
                # `_link` would put it off to the next tick.
                self._link_due(timer, due_ms)
            else:
                self._link(timer, due_ms)

    def _link_due(self, timer: int, due_ms: int) -> None:
        slot = self._tick & 255
        head = self._heads[slot]
        self._next[timer] = head
        self._previous[timer] = _FIRST - slot
        if head != _END:
            self._previous[head] = timer
        self._heads[slot] = timer
        self._occupied[0] |= 1 << slot
        self._earliest_ms[slot] = min(self._earliest_ms[slot], due_ms)

    def _drain(self, slot: int) -> list[int]:
        timers: list[int] = []
        timer = self._heads[slot]
        following, previous = self._next, self._previous
        while timer != _END:
            timers.append(timer)
            previous[timer] = _UNLINKED
            timer = following[timer]
        if timers:
            self._heads[slot] = _END
            self._empty(slot)
        return timers

    def _empty(self, slot: int) -> None:
        self._earliest_ms[slot] = _NEVER_MS
        if slot == _BEYOND:
            self._occupied[4] = 0
            return
        for level, (first_slot, _, last) in enumerate(_LEVELS):
            if slot <= first_slot + last:
                self._occupied[level] &= ~(1 << (slot - first_slot))
                return
