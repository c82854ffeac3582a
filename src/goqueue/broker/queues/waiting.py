"""Readers that wait for a message of a queue stand in line: a message wakes one and not all.

Whoever is woken looks. If it saw something, there may be more: it wakes the next in line. If it saw
nothing, the others would see nothing either. Who may not have more just now cannot tell: it lets
the next in line look, and waits beside the line. But only one that has not begun to look since
something last happened: two such readers whose looks overlap would wake each other without end.

Readers of queues that another broker leads stand in a line here, too; `LinesElsewhere` wakes it.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.waiting import FetchWaiter, Waiter, credit_all, wake_all
from goqueue.model.names import NodeId
from goqueue.model.queues.messages import QueueKey
from goqueue.model.rights import ReadableGroup, ReadableTopic


class QueuesElsewhere(NamedTuple):
    """What a group reads of a topic at another leader: the queues of these partitions."""

    group: ReadableGroup
    topic: ReadableTopic
    leader: NodeId
    indexes: tuple[int, ...]


LineKey = QueueKey | QueuesElsewhere
LedQueue = tuple[QueueKey, Partition]
Watched = Sequence[LedQueue | tuple[QueuesElsewhere, None]]


class _Line(FetchWaiter):
    """Waits at a partition on behalf of all readers of one queue."""

    __slots__ = ("aside", "events", "members", "partition")

    def __init__(self, partition: Partition | None) -> None:
        super().__init__(1)
        self.partition = partition
        # How often something happened in the queue.
        self.events = 0
        # In line, with how often something had happened before each began to look.
        self.members: dict[Waiter, int] = {}
        # Not in line: everything wakes them, but nobody in line does.
        self.aside: dict[Waiter, None] = {}

    def credit(self, readable_bytes: int) -> None:
        self.events += 1
        credit_all(self.aside, readable_bytes)
        self.wake_next()

    def wake(self) -> None:
        self.events += 1
        if self.partition is None or self.partition.offline_reason is None:
            wake_all(self.aside)
            self.wake_next()
        else:
            # It will not come back for them: all must hear of it.
            self.wake_everyone()

    def wake_everyone(self) -> None:
        self.events += 1
        wake_all(self.aside)
        wake_all(self.members)

    def wake_next(self) -> None:
        first = next(iter(self.members), None)
        if first is not None:
            del self.members[first]
            first.wake()

    def wake_unaware(self) -> None:
        """The next in line, unless it has begun to look since something last happened. Those
        behind it began later."""
        if next(iter(self.members.values()), self.events) < self.events:
            self.wake_next()


class QueueLines:
    def __init__(self) -> None:
        self._lines: dict[LineKey, _Line] = {}

    def wake(self, key: LineKey) -> None:
        """There may be something in this queue."""
        line = self._lines.get(key)
        if line is not None:
            line.wake()

    def wake_everyone(self, key: LineKey) -> None:
        """Nothing more will come of this queue here: all look where it is now."""
        line = self._lines.get(key)
        if line is not None:
            line.wake_everyone()

    @contextmanager
    def place(self, watched: Watched, *, in_line: bool = True) -> Iterator["PlaceInLine"]:
        """Enter it before looking, so that nothing that comes meanwhile is missed.

        Only those who take whatever they see may stand in line; others are woken by everything.
        """
        place = PlaceInLine(self, [key for key, _ in watched])
        for key, partition in watched:
            line = self._line(key, partition)
            if in_line:
                line.members[place.waiter] = line.events
            else:
                line.aside[place.waiter] = None
        try:
            yield place
        finally:
            for key, _ in watched:
                self._leave(place.waiter, key)
            for key in place.keys_for_next() if in_line else ():
                if key in self._lines:
                    self._lines[key].wake_next()
            for key in place.full:
                if key in self._lines:
                    self._lines[key].wake_unaware()

    def step_aside(self, waiter: FetchWaiter, key: LineKey) -> None:
        """Let the next in line have what this one was woken for."""
        line = self._lines.get(key)
        if line is not None:
            line.members.pop(waiter, None)
            line.aside[waiter] = None
            line.wake_unaware()

    def _line(self, key: LineKey, partition: Partition | None) -> _Line:
        line = self._lines.get(key)
        if line is None or line.partition is not partition:
            line = self._lines[key] = _Line(partition)
            if partition is not None:
                partition.waiters[line] = None
        return line

    def _leave(self, waiter: FetchWaiter, key: LineKey) -> None:
        line = self._lines.get(key)
        if line is None:
            return
        line.members.pop(waiter, None)
        line.aside.pop(waiter, None)
        if not line.members and not line.aside:
            del self._lines[key]
            if line.partition is not None:
                line.partition.waiters.pop(line, None)


class PlaceInLine:
    """Of one reader for one look, in the lines of all queues that it wants something from."""

    __slots__ = ("_is_owed", "_keys", "_lines", "_seen", "full", "waiter")

    def __init__(self, lines: QueueLines, keys: Sequence[LineKey]) -> None:
        self.waiter = FetchWaiter(1)
        self._lines = lines
        self._keys = keys
        # Queues that it may not have more of just now.
        self.full: Collection[LineKey] = ()
        # Until it has looked, it must be taken for one that would have seen something in all.
        self._seen: Sequence[LineKey] = keys
        self._is_owed = True

    def looked(self, seen: Sequence[LineKey], *, full: Collection[LineKey] = ()) -> None:
        """There was something in these queues for somebody, or they were not looked into.

        `full` are those of them of which this reader may not have more just now.
        """
        self._seen = [key for key in seen if key not in full]
        self.full = full

    async def wait(self, wait_s: float) -> None:
        for key in self.full:
            self._lines.step_aside(self.waiter, key)
        self.full = ()
        await self.waiter.wait((), wait_s)
        # The look that this was woken for comes next, from a place of its own.
        self._is_owed = False

    def keys_for_next(self) -> Sequence[LineKey]:
        """Queues whose next reader in line must look, too."""
        if self._is_owed and self.waiter.is_woken:
            # Woken for something that came after the look, or never looked.
            return self._keys
        return self._seen
