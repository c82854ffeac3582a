"""Share fetches that wait stand in line, so that a record wakes one member and not all of them.

Whoever is woken looks. If it saw something, there may be more: it wakes the next in line. If it saw
nothing, the others would see nothing either.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.waiting import FetchWaiter
from goqueue.broker.queues.waiting import QueueWaiting
from goqueue.model.queues.messages import QueueKey


class _Line(FetchWaiter):
    """Waits for one queue on behalf of all members in line."""

    __slots__ = ("members", "watch")

    def __init__(self) -> None:
        super().__init__(1)
        self.members: dict[FetchWaiter, None] = {}
        self.watch: AbstractContextManager[None] | None = None

    def credit(self, readable_bytes: int) -> None:  # noqa: ARG002
        self.wake()

    def wake(self) -> None:
        first = next(iter(self.members), None)
        if first is not None:
            del self.members[first]
            first.wake()


class ShareWaiting:
    def __init__(self, waiting: QueueWaiting) -> None:
        self._waiting = waiting
        self._lines: dict[QueueKey, _Line] = {}

    def place(
        self, watched: Sequence[tuple[QueueKey, Partition]], *, in_line: bool
    ) -> AbstractContextManager["Place"]:
        """Enter it before looking, so that nothing that comes meanwhile is missed.

        Only those who take whatever they see may stand in line; others are woken by everything.
        """
        return self._in_line(watched) if in_line else self._aside(watched)

    @contextmanager
    def _aside(self, watched: Sequence[tuple[QueueKey, Partition]]) -> Iterator["Place"]:
        place = Place(watched)
        with self._waiting.watching(place.waiter, watched):
            yield place

    @contextmanager
    def _in_line(self, watched: Sequence[tuple[QueueKey, Partition]]) -> Iterator["Place"]:
        place = Place(watched)
        for key, partition in watched:
            self._join(place.waiter, key, partition)
        try:
            yield place
        finally:
            for key, _ in watched:
                self._leave(place.waiter, key)
            for key in place.keys_for_next():
                line = self._lines.get(key)
                if line is not None:
                    line.wake()

    def lines(self) -> list[_Line]:
        return list(self._lines.values())

    def _join(self, waiter: FetchWaiter, key: QueueKey, partition: Partition) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            line.watch = self._waiting.watching(line, [(key, partition)])
            line.watch.__enter__()
        line.members[waiter] = None

    def _leave(self, waiter: FetchWaiter, key: QueueKey) -> None:
        line = self._lines.get(key)
        if line is None:
            return
        line.members.pop(waiter, None)
        if not line.members:
            del self._lines[key]
            assert line.watch is not None
            line.watch.__exit__(None, None, None)


class _Member(FetchWaiter):
    __slots__ = ("is_woken",)

    def __init__(self) -> None:
        super().__init__(1)
        self.is_woken = False

    def wake(self) -> None:
        self.is_woken = True
        super().wake()


class Place:
    """Of one fetch for one look, in the lines of all queues that it wants something from."""

    __slots__ = ("_is_owed", "_keys", "_seen", "waiter")

    def __init__(self, watched: Sequence[tuple[QueueKey, Partition]]) -> None:
        self.waiter = _Member()
        self._keys = [key for key, _ in watched]
        # Until it has looked, it must be taken for one that would have seen something in all.
        self._seen: Sequence[QueueKey] = self._keys
        self._is_owed = True

    def looked(self, seen: Sequence[QueueKey]) -> None:
        """There was something in these queues, or they were not looked into."""
        self._seen = seen

    async def wait(self, wait_s: float) -> None:
        await self.waiter.wait((), wait_s)
        # The look that this was woken for comes next, from a place of its own.
        self._is_owed = False

    def keys_for_next(self) -> Sequence[QueueKey]:
        """Queues whose next member in line must look, too."""
        if self._is_owed and self.waiter.is_woken:
            # Woken for something that came after the look, or never looked.
            return self._keys
        return self._seen
