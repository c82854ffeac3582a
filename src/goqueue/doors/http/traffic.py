"""What goes through the door: counted for the metrics, and bounded."""

from collections import Counter
from collections.abc import Sized
from typing import Final

# Long polls stand among them, so it is large; each holds a task and a few KB.
REQUESTS_IN_FLIGHT_MAX: Final = 4_096

# A client may send any word as a method; others are counted together.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    def __init__(self, connections: Sized) -> None:
        self._connections = connections
        self.in_flight = 0
        self.answered: Counter[tuple[str, int]] = Counter()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def is_full(self) -> bool:
        return self.in_flight >= REQUESTS_IN_FLIGHT_MAX

    def count(self, method: str, status: int) -> None:
        self.answered[method if method in _METHODS else "other", status] += 1
