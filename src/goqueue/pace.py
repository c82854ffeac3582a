"""Long work in slices, so that others get their turns on the event loop."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# Short beside what a client notices; long beside the few microseconds that a turn costs.
SLICE_SECONDS: Final = 0.002


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
