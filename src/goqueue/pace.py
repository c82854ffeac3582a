"""Long work in slices, so that others get their turns on the event loop."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from time import perf_counter
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# Short beside what a client notices; long beside the few microseconds that a turn costs.
SLICE_SECONDS: Final = 0.002
# Takes about a millisecond.
SORTED_AT_ONCE: Final = 1_000


class Pace:
    def __init__(self) -> None:
        self._rest_at = perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """The slice; then `rest`."""
        return perf_counter() >= self._rest_at

    async def rest(self) -> None:
        await next_slice()
        self._rest_at = perf_counter() + SLICE_SECONDS


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, one by one; whoever takes them lets others run every few milliseconds."""
    pace = Pace()
    for item in items:
        yield item
        if pace.is_over:
            await pace.rest()


async def sorted_in_slices(items: Iterable[T], key: Callable[[T], Any]) -> AsyncIterator[T]:
    """The items in order. Sorting a piece takes less than a slice."""
    pieces: list[list[T]] = [[]]
    async for item in in_slices(items):
        if len(pieces[-1]) == SORTED_AT_ONCE:
            pieces[-1].sort(key=key)
            pieces.append([])
        pieces[-1].append(item)
    pieces[-1].sort(key=key)
    async for item in in_slices(heapq.merge(*pieces, key=key)):
        yield item


async def next_slice() -> None:
    """Wait until it is this work's turn again: of all long work, one slice is done per turn of the
    loop. Otherwise twenty long requests would make each turn twenty slices long."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line(loop)
    await line.stand()


class _Line:
    """Work that waits for its next slice, on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def stand(self) -> asyncio.Future[None]:
        place = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._next)
        self._waiting.append(place)
        return place

    def _next(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._next)


_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]] = WeakKeyDictionary()
