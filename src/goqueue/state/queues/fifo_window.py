"""What a FIFO queue took in the last five minutes, and the numbers it gave: a pure machine.

Its log is the queue itself: a message has its ids and its number in its headers, so that what is
stored and what is remembered cannot differ, and a restart replays the messages of five minutes.

    deduplication id    free ──decide, replay──> taken ──five minutes──> free
                                                   ├────withdraw───────> free
                                                   └─────forget────────> free

`decide` changes nothing; `replay` takes an id and moves the numbers on; `withdraw` gives an id back
whose message is known not to be in the log; `forget` gives back those of messages that were purged.
Numbers grow always, also when the clock is put back, and the window goes by the numbers' time,
which therefore never goes back either.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from goqueue.model.queues.fifo import DEDUPLICATION_MS, TooManyIds, number_at, time_of

# What one queue may remember; some hundred megabytes. Beyond it sends are throttled.
REMEMBERED_MAX: Final = 1_000_000


class Taken(NamedTuple):
    """A message under its deduplication id. `key` has the group in front where that counts."""

    key: str
    message_id: str
    number: int

    @property
    def free_ms(self) -> int:
        """When the id may be used again."""
        return time_of(self.number) + DEDUPLICATION_MS


class FifoWindow:
    def __init__(self) -> None:
        # In the order of numbers, and so of time.
        self._taken: OrderedDict[str, Taken] = OrderedDict()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._taken)

    def decide(self, key: str, message_id: str, now_ms: int) -> Taken:
        """The message that has this id now: an earlier one, or the one asked for, to be stored."""
        now_ms = max(now_ms, time_of(self._last_number))
        earlier = self._taken.get(key)
        if earlier is not None and now_ms < earlier.free_ms:
            return earlier
        if self._is_full(now_ms):
            raise TooManyIds("The queue has too many deduplication ids.")
        return Taken(key, message_id, max(number_at(now_ms), self._last_number + 1))

    def replay(self, taken: Taken) -> None:
        """A message that was decided, or found in the log; in the order of numbers."""
        self._last_number = max(self._last_number, taken.number)
        self._taken[taken.key] = taken
        self._taken.move_to_end(taken.key)
        self._forget_old(time_of(self._last_number))

    def withdraw(self, taken: Taken) -> None:
        """The message is not stored: its id may be used again, its number not."""
        if self._taken.get(taken.key) == taken:
            del self._taken[taken.key]

    @property
    def last_number(self) -> int:
        return self._last_number

    def skip_to(self, number: int) -> None:
        """Numbers up to this one were given, to messages that are gone."""
        self._last_number = max(self._last_number, number)

    def forget(self, up_to: int) -> None:
        """The messages up to this number were purged: their ids may be used again."""
        while self._taken:
            oldest = next(iter(self._taken.values()))
            if oldest.number > up_to:
                return
            del self._taken[oldest.key]

    def _is_full(self, now_ms: int) -> bool:
        if len(self._taken) < REMEMBERED_MAX:
            return False
        return now_ms < next(iter(self._taken.values())).free_ms

    def _forget_old(self, now_ms: int) -> None:
        while self._taken:
            oldest = next(iter(self._taken.values()))
            if now_ms < oldest.free_ms:
                return
            del self._taken[oldest.key]
