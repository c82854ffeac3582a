"""Which messages a FIFO queue has taken in the last five minutes: a pure structure.

Nothing is stored for it: the ids are in the messages, so the window is found again in the log.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# SQS Developer Guide, "Exactly-once processing in Amazon SQS".
WINDOW_MS: Final = 300_000
# What one queue may remember; some hundred megabytes. Beyond it sends are throttled.
REMEMBERED_MAX: Final = 1_000_000


class DeduplicationWindow(Generic[T]):
    def __init__(self) -> None:
        # In the order of time.
        self._taken: OrderedDict[str, tuple[int, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._taken)

    def is_full(self, now_ms: int) -> bool:
        self._forget_old(now_ms)
        return len(self._taken) >= REMEMBERED_MAX

    def find(self, key: str, now_ms: int) -> T | None:
        self._forget_old(now_ms)
        found = self._taken.get(key)
        return None if found is None else found[1]

    def take(self, key: str, message: T, now_ms: int) -> None:
        """Remember a message from now on; the window begins with the first send of an id."""
        self._taken[key] = (now_ms, message)

    def give_back(self, key: str, message: T) -> None:
        """The message was not stored after all: the id may be used again."""
        found = self._taken.get(key)
        if found is not None and found[1] is message:
            del self._taken[key]

    def _forget_old(self, now_ms: int) -> None:
        while self._taken:
            key, (taken_ms, _) = next(iter(self._taken.items()))
            if taken_ms + WINDOW_MS > now_ms:
                return
            del self._taken[key]
