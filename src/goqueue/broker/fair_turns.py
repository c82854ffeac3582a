"""One at a time, and those who ask take turns, however much each of them asks for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.model.fairness.line import Line


class FairTurns:
    def __init__(self) -> None:
        self._is_taken = False
        self._line: Line[asyncio.Future[None]] = Line()

    def waiting(self, asker: str) -> int:
        return self._line.count(asker)

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
        self._line.add(asker, called)
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._line.leave(asker, called)
            else:
                self._pass_on()  # it was just called
            raise

    def _pass_on(self) -> None:
        """To the next asker, without a moment in which somebody else could take the turn."""
        while self._line:
            called = self._line.take()
            # One who went away may not have left the line yet.
            if not called.done():
                called.set_result(None)
                return
        self._is_taken = False
