"""Answers of one connection that its client does not take, as far as they are counted."""

from goqueue.doors.kafka.request_memory import RequestMemory


class UnsentAnswers:
    """Nothing below the high water mark."""

    __slots__ = ("_memory", "counted_bytes", "since_seconds")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.counted_bytes = 0
        # Zero: there are none.
        self.since_seconds = 0.0

    def count_in(self, memory: RequestMemory) -> None:
        """From now on, while there are none."""
        assert not self.counted_bytes
        self._memory = memory

    def count(self, unsent_bytes: int) -> None:
        change = unsent_bytes - self.counted_bytes
        self.counted_bytes = unsent_bytes
        if change > 0:
            self._memory.take(change)
        elif change < 0:
            self._memory.give_back(-change)
