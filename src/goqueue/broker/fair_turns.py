"""One at a time, and those who ask take turns, however much each of them asks for."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    def __init__(self) -> None:
        self._is_taken = False
        # Who waits; the first in line is at the front, with what waits longest of theirs.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def waiting(self, asker: str) -> int:
        return len(self._waiting.get(asker, ()))

    @asynccontextmanager
    async def turn(self, asker: str) -> AsyncIterator[None]:
        if self._is_taken:
            await self._wait(asker)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, asker: str) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asker, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._leave(asker, called)
            else:
                self._pass_on()  # it was just called
            raise

    def _leave(self, asker: str, called: "asyncio.Future[None]") -> None:
        line = self._waiting.get(asker, deque())
        if called in line:
            line.remove(called)
            if not line:
                del self._waiting[asker]

    def _pass_on(self) -> None:
        """To the next asker, without a moment in which somebody else could take the turn."""
        while self._waiting:
            asker, line = self._waiting.popitem(last=False)
            called = line.popleft()
            if line:
                self._waiting[asker] = line
            # One who went away may not have left the line yet.
            if not called.done():
                called.set_result(None)
                return
        self._is_taken = False
