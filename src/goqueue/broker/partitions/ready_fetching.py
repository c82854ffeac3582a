"""A fetch of a session: reads what is ready, and waits until there is enough."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping

from goqueue.broker.partitions.fetching import (
    SLICE_PARTS,
    CopyFinder,
    Nearest,
    is_settled,
    read_part,
)
from goqueue.broker.partitions.ready_list import ReadyList, Watch
from goqueue.broker.partitions.waiting import Ending
from goqueue.model.errors import AccessDenied, GoQueueError
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.rights import ReadablePart

# Raises `AccessDenied` where the caller may not read it.
CheckPart = Callable[[FetchPart], ReadablePart]


class ReadyFetch(ABC):
    def __init__(
        self,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        *,
        max_bytes: int,
        looks_at_all: bool,
    ) -> None:
        self._ready = ready
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._looks_at_all = looks_at_all
        # Of each partition that was looked at, what was asked for and found: the last look counts.
        self.asked: dict[Hashable, FetchPart] = {}
        self._found: dict[Hashable, FetchedPart] = {}

    @abstractmethod
    async def _read(self, part: FetchPart, max_bytes: int, *, at_least_one: bool) -> FetchedPart:
        """The part as it is, with an error where the reader may not have it."""

    @abstractmethod
    def _watch(self, key: Hashable, part: FetchPart) -> bool:
        """Wait for something to read; False if there is something."""

    async def run(
        self, *, max_wait_ms: int, min_bytes: int, until: Ending | None = None
    ) -> dict[Hashable, FetchedPart]:
        """Returns at once on enough bytes or any error that is news, or when it is ended."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + max_wait_ms / 1000
        ready = self._ready
        ready.is_hurried = False
        while True:
            look = _Look(self._max_bytes)
            # The session may have changed while an earlier fetch of it ended.
            taken = [key for key in ready.take() if key in self._wanted]
            try:
                await self._look(look, taken)
            finally:
                # What happened while others were read is to be looked at before anybody waits.
                is_noticed = len(ready) > 0
                ready.put_back([*look.unread, *taken[look.count :]], [*look.failed, *look.served])
            wait_s = give_up_at - loop.time()
            if (
                look.has_news
                or look.bytes >= min_bytes
                or wait_s <= 0
                or ready.is_closed
                or ready.is_hurried
                or (until is not None and until.is_over)
            ):
                return self._found
            if not is_noticed:
                await ready.wait(min_bytes - look.bytes, wait_s, until)

    async def _look(self, look: "_Look", taken: list[Hashable]) -> None:
        for count, key in enumerate(taken, 1):
            if look.is_full and not self._looks_at_all:
                return
            part = self._wanted[key]
            found = await self._read(
                part,
                min(part.max_bytes, look.max_bytes - look.bytes),
                at_least_one=not look.bytes,
            )
            look.bytes += len(found.data)
            look.count = count
            self.asked[key] = part
            self._found[key] = found
            if is_settled(found):
                look.failed.append(key)
                if key not in self._ready.refused or not isinstance(found.error, AccessDenied):
                    look.has_news = True
            elif found.data:
                look.served.append(key)
            elif not self._watch(key, part):
                look.unread.append(key)
            if count % SLICE_PARTS == 0:
                await asyncio.sleep(0)


class _Look:
    """At all that is ready: how far it came, and what is to be looked at again."""

    __slots__ = ("bytes", "count", "failed", "has_news", "max_bytes", "served", "unread")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.count = 0
        # There was no space left for what they have.
        self.unread: list[Hashable] = []
        self.failed: list[Hashable] = []
        # One of them failed, and the reader does not know it yet.
        self.has_news = False
        self.served: list[Hashable] = []

    @property
    def is_full(self) -> bool:
        return 0 < self.max_bytes <= self.bytes


class ReaderFetch(ReadyFetch):
    """Of a client: as far as it may see."""

    def __init__(
        self,
        find: CopyFinder,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        check: CheckPart,
        *,
        max_bytes: int,
        isolation: Isolation,
        looks_at_all: bool,
        nearest: Nearest | None = None,
    ) -> None:
        super().__init__(ready, wanted, max_bytes=max_bytes, looks_at_all=looks_at_all)
        self._find = find
        self._check = check
        self._isolation = isolation
        self._nearest = nearest

    async def _read(self, part: FetchPart, max_bytes: int, *, at_least_one: bool) -> FetchedPart:
        try:
            readable = self._check(part)
        except GoQueueError as error:
            return FetchedPart(part.topic, part.index, error)
        return await read_part(
            self._find,
            readable,
            max_bytes,
            self._isolation,
            at_least_one=at_least_one,
            nearest=self._nearest,
        )

    def _watch(self, key: Hashable, part: FetchPart) -> bool:
        try:
            partition = self._find(part.topic, part.index)
        except GoQueueError:
            return False  # it went just now; the next look says so
        if part.offset < partition.readable_end(self._isolation):
            return False
        self._ready.watch(Watch(self._ready, key, partition))
        return True
