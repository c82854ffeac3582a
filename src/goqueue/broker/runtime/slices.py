"""Turns at the event loop for long work: in haste, or at leisure."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from typing import Final, Protocol

from goqueue.pace import SLICE_SECONDS, next_slice

# At leisure, all work together takes no more than this part of one core: enough to keep up with a
# leader, who does more than replay, and it leaves the rest to those who wait for an answer.
LEISURE_SHARE: Final = 0.5


class Slice:
    """A turn that has begun."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._end


class Slices(Protocol):
    def slice(self) -> AbstractAsyncContextManager[Slice]:
        """Wait for a turn; whoever has it works until it is over, without waiting for anything."""
        ...


class InHaste:
    """Somebody waits for it: of all that is in haste, one after another."""

    @asynccontextmanager
    async def slice(self) -> AsyncIterator[Slice]:
        await next_slice()
        yield Slice()


class AtLeisure:
    """Nobody waits for it."""

    def __init__(self) -> None:
        # Held while a state is read from the start: it is in memory twice meanwhile.
        self.beginning = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._next_at = 0.0

    @asynccontextmanager
    async def slice(self) -> AsyncIterator[Slice]:
        async with self._turn:
            # A sleep of nothing still lets others have their turn.
            await asyncio.sleep(max(0.0, self._next_at - perf_counter()))
            began = perf_counter()
            try:
                yield Slice()
            finally:
                now = perf_counter()
                self._next_at = now + (now - began) * (1 - LEISURE_SHARE) / LEISURE_SHARE
