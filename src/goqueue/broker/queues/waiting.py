"""Queue readers that wait for a message: woken by appends, and by messages that come back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.waiting import FetchWaiter, wake_all
from goqueue.model.queues.messages import QueueKey


class QueueWaiting:
    def __init__(self) -> None:
        self._waiters: dict[QueueKey, dict[FetchWaiter, None]] = {}

    @contextmanager
    def watching(
        self, waiter: FetchWaiter, watched: Sequence[tuple[QueueKey, Partition]]
    ) -> Iterator[None]:
        """Enter before looking, so that nothing that comes meanwhile is missed."""
        for key, partition in watched:
            partition.waiters[waiter] = None
            self._waiters.setdefault(key, {})[waiter] = None
        try:
            yield
        finally:
            for key, partition in watched:
                partition.waiters.pop(waiter, None)
                waiters = self._waiters.get(key, {})
                waiters.pop(waiter, None)
                if not waiters:
                    self._waiters.pop(key, None)

    def wake(self, key: QueueKey) -> None:
        waiters = self._waiters.get(key)
        if waiters:
            wake_all(waiters)
