"""Long work in slices, so that other connections get their turns."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# A request of more elements is worked on by itself, not side by side with others of its connection:
# only then may its work be cut into slices without changing what comes first.
LARGE_ELEMENTS: Final = 500
# Short beside what a client notices; long beside the few microseconds that a turn costs.
SLICE_SECONDS: Final = 0.005


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, one by one; whoever takes them lets others run every few milliseconds."""
    stop_at = perf_counter() + SLICE_SECONDS
    for item in items:
        yield item
        if perf_counter() > stop_at:
            await next_slice()
            stop_at = perf_counter() + SLICE_SECONDS


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
