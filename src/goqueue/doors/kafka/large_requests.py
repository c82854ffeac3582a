"""Requests of very many elements: decoded one at a time, and not too many in hand at once.

Decoded and with its answer in the making, an element takes ten times its bytes and more. What has
to wait stays bytes, which are counted (`RequestMemory`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from goqueue.pace import next_slice

# A request of more elements is worked on by itself, not side by side with others of its connection:
# only then may its work be cut into slices without changing what comes first.
LARGE_ELEMENTS: Final = 500
# Some 70 MB. A request has 20,000 at most unless configured; one that has more is in hand alone.
ELEMENTS_MAX: Final = 100_000


class LargeRequests:
    def __init__(self, elements_max: int = ELEMENTS_MAX) -> None:
        self.turn = asyncio.Lock()
        self._elements_max = elements_max
        self._elements = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def in_hand(self, decode: Callable[[], Awaitable[int]]) -> AsyncIterator[None]:
        """Have a request decoded, whose elements are then counted until it is done."""
        async with self.turn:
            await next_slice()
            elements = await decode()
            while self._elements and self._elements + elements > self._elements_max:
                self._freed.clear()
                await self._freed.wait()
            self._elements += elements
        try:
            await next_slice()
            yield
        finally:
            self._elements -= elements
            self._freed.set()
