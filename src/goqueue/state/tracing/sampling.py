"""Which messages are traced, decided by offset alone: without memory, and not message by message.

Offsets are cut into blocks, as many per million as the rate says, and a hash chooses one offset of
each block. Whichever range is asked for, the same offsets are chosen, and the work is by chosen
offset. A coarser level takes every 2nd, 4th, 8th … block: what it chooses is chosen at every finer
level too, so that a message noted at its fetch while all was busy was noted when published, too.
"""

from collections.abc import Iterator
from typing import Final

MILLION: Final = 1_000_000
_MASK: Final = (1 << 64) - 1
# At the default bound, far more than a broker can take in a second.
LEVEL_MAX: Final = 20


def parts_per_million(rate: float) -> int:
    """A rate as the blocks know it; one that is not 0 chooses something."""
    return 0 if rate <= 0 else max(1, min(MILLION, round(rate * MILLION)))


class Sampler:
    """Chooses among the offsets of one partition. `key` makes it another choice in each."""

    __slots__ = ("_key", "_ppm")

    def __init__(self, key: int, ppm: int) -> None:
        assert 1 <= ppm <= MILLION
        self._key = key
        self._ppm = ppm

    def estimate(self, start: int, end: int) -> int:
        """About how many of [start, end) are chosen at level 0."""
        return (end - start) * self._ppm // MILLION

    def chosen(self, start: int, end: int, level: int = 0) -> Iterator[int]:
        """The chosen offsets in [start, end), in order."""
        step = 1 << level
        # Rounded up: at a coarser level the block that `start` lies in may be passed over.
        block = -(-self._block_of(start) // step) * step
        while (first := self._start_of(block)) < end:
            offset = first + self._hash(block) % (self._start_of(block + 1) - first)
            if start <= offset < end:
                yield offset
            block += step

    def is_chosen(self, offset: int, level: int = 0) -> bool:
        return next(self.chosen(offset, offset + 1, level), None) is not None

    def first_from(self, offset: int, level: int = 0) -> int:
        """The first chosen offset at or after `offset`."""
        step = 1 << level
        block = -(-self._block_of(offset) // step) * step
        while True:
            first = self._start_of(block)
            found = first + self._hash(block) % (self._start_of(block + 1) - first)
            if found >= offset:
                return found
            block += step

    def _block_of(self, offset: int) -> int:
        return ((offset + 1) * self._ppm - 1) // MILLION

    def _start_of(self, block: int) -> int:
        return block * MILLION // self._ppm

    def _hash(self, block: int) -> int:
        """SplitMix64's finaliser: neighbouring blocks get unrelated numbers."""
        mixed = (self._key + block * 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
        return mixed ^ mixed >> 31


class Throttle:
    """Keeps what is noted per second within a bound, by making sampling coarser for a while.

    A second's allowance that would not do raises the level at once; a second that used less than
    half of it lowers the level by one.
    """

    def __init__(self, per_second: int) -> None:
        """`per_second` of 0 is no bound."""
        self._per_second = per_second
        self._second = -1
        self._used = 0
        self.level = 0
        self.left_out = 0

    def turn(self, now_us: int) -> None:
        """Another second may have begun, or several."""
        second = now_us // MILLION
        if second == self._second:
            return
        # Seconds in which nothing was asked for used nothing.
        quiet = max(0, second - self._second - 1)
        if self._used * 2 < self._per_second:
            quiet += 1
        self.level = max(0, self.level - quiet)
        self._second, self._used = second, 0

    def level_for(self, count: int, now_us: int) -> int | None:
        """The level at which about `count` messages may be noted now; None: not even one."""
        if not self._per_second:
            return 0
        self.turn(now_us)
        left = self._per_second - self._used
        if left <= 0:
            self.level = max(self.level, 1)
            self.left_out += count
            return None
        while count >> self.level > left and self.level < LEVEL_MAX:
            self.level += 1
        return self.level

    def is_spent(self, now_us: int) -> bool:
        """Whether nothing more may be noted in this second."""
        return now_us // MILLION == self._second and 0 < self._per_second <= self._used

    def spend(self, noted: int, of: int) -> None:
        """`noted` messages were noted, of the `of` that sampling would have chosen."""
        self._used += noted
        self.left_out += max(0, of - noted)

    def admit_one(self, now_us: int) -> bool:
        """Whether one more message may be noted, which is then spent."""
        if self.level_for(1, now_us) is None:
            return False
        self._used += 1
        return True


class Budget:
    """So many of something per second, and no more."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = -1
        self._left = per_second

    def has_left(self, now_us: int) -> bool:
        self._turn(now_us)
        return self._left > 0

    def take(self, count: int, now_us: int) -> bool:
        """The last one may overdraw, so that what is larger than the budget gets its turn."""
        self._turn(now_us)
        if self._left <= 0:
            return False
        self._left -= count
        return True

    def _turn(self, now_us: int) -> None:
        second = now_us // MILLION
        if second != self._second:
            # What was overdrawn counts against the seconds that follow, also those without a take.
            passed = max(1, second - self._second)
            self._second = second
            self._left = min(self._per_second, min(self._left, 0) + passed * self._per_second)
