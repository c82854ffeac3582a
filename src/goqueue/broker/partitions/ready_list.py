"""Which partitions of a fetch session may have something to tell since it last looked at them.

A session may be about thousands of partitions, of which few change between two fetches. One that
was looked at and had nothing is watched: whatever happens there puts it on the list again. One that
had something, or an error, stays on the list. So a fetch looks at what changed, and nothing else.
"""

from collections.abc import Hashable, Iterable

from goqueue.broker.partitions.waiting import Ending, FetchWaiter, Waiter, Watched


class Watch(Waiter):
    """Stands among a partition's waiters until something happens there."""

    __slots__ = ("key", "list", "partition")

    def __init__(self, ready_list: "ReadyList", key: Hashable, partition: Watched) -> None:
        self.list = ready_list
        self.key = key
        self.partition = partition

    def begin(self) -> None:
        self.partition.waiters[self] = None

    def end(self) -> None:
        self.partition.waiters.pop(self, None)

    def credit(self, readable_bytes: int) -> None:
        self.list.noticed(self, readable_bytes)

    def wake(self) -> None:
        self.list.noticed(self, None)


class ReadyList:
    """In the order in which they are to be looked at. Used by one fetch at a time."""

    __slots__ = (
        "_ready",
        "_waiter",
        "_watches",
        "is_closed",
        "is_hurried",
        "refused",
        "rule_changes",
    )

    def __init__(self) -> None:
        self._ready: dict[Hashable, None] = {}
        self._watches: dict[Hashable, Watch] = {}
        self._waiter: FetchWaiter | None = None
        self.is_closed = False
        self.is_hurried = False
        # How often rules had changed when all of them were looked at.
        self.rule_changes = 0
        # Of which the reader has been told that it may not read them. Clients fetch again at once,
        # whatever they are told: a fetch waits for these as for those that have nothing.
        self.refused: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def keys(self) -> Iterable[Hashable]:
        return self._ready

    def add(self, key: Hashable) -> None:
        """Something else is wanted of it than before."""
        self._unwatch(key)
        self._ready[key] = None

    def forget(self, key: Hashable) -> None:
        self._unwatch(key)
        self._ready.pop(key, None)

    def take(self) -> list[Hashable]:
        """All of them, to be looked at; what happens from now on puts them on the list again."""
        taken = list(self._ready)
        self._ready.clear()
        return taken

    def put_back(self, first: Iterable[Hashable], last: Iterable[Hashable]) -> None:
        """Those that were not reached come first the next time, those that got their share last."""
        if self.is_closed:
            return
        ready = dict.fromkeys(first)
        ready.update(self._ready)
        for key in last:
            # Also one that was noticed meanwhile had its share.
            ready.pop(key, None)
            ready[key] = None
        self._ready = ready

    def watch(self, watch: Watch) -> None:
        """There was nothing: wait for what happens. In the same turn of the loop as the look."""
        self._unwatch(watch.key)
        if not self.is_closed:
            self._watches[watch.key] = watch
            watch.begin()

    def mark(self, key: Hashable) -> None:
        """There is something to tell, for which nobody has to be woken."""
        self._ready[key] = None

    def hurry(self) -> None:
        """The reader asks for something else already: end the wait, if there is one."""
        self.is_hurried = True
        if self._waiter is not None:
            self._waiter.wake()

    def noticed(self, watch: Watch, readable_bytes: int | None) -> None:
        """Something happened in a watched partition; None: nobody knows how many bytes it made."""
        self._ready[watch.key] = None
        waiter = self._waiter
        if waiter is not None:
            if readable_bytes is None:
                waiter.wake()
            else:
                waiter.credit(readable_bytes)
            if not waiter.is_woken:
                return  # further bytes count, too
        self._unwatch(watch.key)

    async def wait(self, needed_bytes: int, max_wait_s: float, until: Ending | None = None) -> None:
        """Until so many bytes came in the watched partitions, or something else happened."""
        waiter = self._waiter = FetchWaiter(needed_bytes)
        try:
            await waiter.wait(() if until is None else (until,), max_wait_s)
        finally:
            if self._waiter is waiter:
                self._waiter = None

    def close(self) -> None:
        """The session is gone; a fetch that waits for it ends."""
        self.is_closed = True
        self._ready.clear()
        for key in tuple(self._watches):
            self._unwatch(key)
        if self._waiter is not None:
            self._waiter.wake()

    def _unwatch(self, key: Hashable) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.end()
