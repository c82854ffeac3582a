"""A fetch of a session: reads what is ready, and waits until there is enough."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence

from goqueue.broker.partitions.fetching import SLICE_PARTS, Finder, is_settled, read_part
from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.model.errors import GoQueueError
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.rights import ReadablePart

# Those that may be read, and the answers of the others by their position.
SortParts = Callable[
    [Sequence[FetchPart]], tuple[Sequence[ReadablePart], Mapping[int, FetchedPart]]
]


class ReadyFetch:
    def __init__(
        self,
        find: Finder,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        sort: SortParts,
        *,
        max_bytes: int,
        isolation: Isolation,
        looks_at_all: bool,
    ) -> None:
        self._find = find
        self._ready = ready
        self._wanted = wanted
        self._sort = sort
        self._max_bytes = max_bytes
        self._isolation = isolation
        self._looks_at_all = looks_at_all
        # Of each partition that was looked at, what was asked for and found: the last look counts.
        self.asked: dict[Hashable, FetchPart] = {}
        self._found: dict[Hashable, FetchedPart] = {}

    async def run(self, *, max_wait_ms: int, min_bytes: int) -> dict[Hashable, FetchedPart]:
        """Returns at once on enough bytes or any error."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + max_wait_ms / 1000
        ready = self._ready
        while True:
            look = _Look(self._max_bytes)
            # The session may have changed while an earlier fetch of it ended.
            taken = [key for key in ready.take() if key in self._wanted]
            try:
                await self._look(look, taken)
            finally:
                # What happened while others were read is to be looked at before anybody waits.
                has_news = len(ready) > 0
                ready.put_back([*look.unread, *taken[look.count :]], [*look.failed, *look.served])
            wait_s = give_up_at - loop.time()
            if look.is_settled or look.bytes >= min_bytes or wait_s <= 0 or ready.is_closed:
                return self._found
            if not has_news:
                await ready.wait(min_bytes - look.bytes, wait_s)

    async def _look(self, look: "_Look", taken: list[Hashable]) -> None:
        parts = [self._wanted[key] for key in taken]
        readable, refused = self._sort(parts)
        allowed = iter(readable)
        for position, key in enumerate(taken):
            if look.is_full and not self._looks_at_all:
                return
            part = parts[position]
            found = refused.get(position)
            if found is None:
                found = await self._read(look, next(allowed))
            self.asked[key] = part
            self._found[key] = found
            look.count = position + 1
            if is_settled(found):
                look.failed.append(key)
            elif found.data:
                look.served.append(key)
            elif not self._watch(key, part):
                look.unread.append(key)
            if look.count % SLICE_PARTS == 0:
                await asyncio.sleep(0)

    def _watch(self, key: Hashable, part: FetchPart) -> bool:
        """Wait for something to read; False if there is something."""
        try:
            partition = self._find(part.topic, part.index)
        except GoQueueError:
            return False  # it went just now; the next look says so
        if part.offset < partition.readable_end(self._isolation):
            return False
        self._ready.watch(key, partition)
        return True

    async def _read(self, look: "_Look", part: ReadablePart) -> FetchedPart:
        found = await read_part(
            self._find,
            part,
            min(part.max_bytes, look.max_bytes - look.bytes),
            self._isolation,
            at_least_one=not look.bytes,
        )
        look.bytes += len(found.data)
        return found


class _Look:
    """At all that is ready: how far it came, and what is to be looked at again."""

    __slots__ = ("bytes", "count", "failed", "max_bytes", "served", "unread")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.count = 0
        # There was no space left for what they have.
        self.unread: list[Hashable] = []
        self.failed: list[Hashable] = []
        self.served: list[Hashable] = []

    @property
    def is_full(self) -> bool:
        return 0 < self.max_bytes <= self.bytes

    @property
    def is_settled(self) -> bool:
        return bool(self.failed)
