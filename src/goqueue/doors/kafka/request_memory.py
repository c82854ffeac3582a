"""How many bytes of requests are held over all connections, and who waits for that to shrink."""

from typing import Protocol


class Waiting(Protocol):
    def memory_freed(self) -> None: ...


class RequestMemory:
    """Counts; a full count stops new frames, not those already on their way, so all can finish."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        self._waiting: dict[Waiting, None] = {}

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self._limit_bytes

    def take(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes
        while self._waiting and not self.is_full:
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.memory_freed()

    def wait(self, waiting: Waiting) -> None:
        self._waiting[waiting] = None

    def forget(self, waiting: Waiting) -> None:
        self._waiting.pop(waiting, None)
