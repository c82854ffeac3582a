"""Turns to append to a partition, so that call order is log order also for those who must wait.

An append takes no time on the event loop, so that most need no turn. Some wait before theirs: for a
schema, or until the delayed part of their batch is safe. Whoever comes meanwhile stands in line
behind them; else a producer's next batch would overtake, and be refused for its sequence.

The first batch of a transaction waits for the transaction coordinator. Only the batches of its own
producer stand in line behind it: a coordinator that is slow must not hold up everyone else.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType


class Turn:
    """To be held from the first wait to the append. Without waiting if nobody else holds it."""

    __slots__ = ("_lock", "in_line")

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        # Who holds the turn and who waits for it: with 0 an append needs none.
        self.in_line = 0

    async def __aenter__(self) -> None:
        self.in_line += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.in_line -= 1
            raise

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.in_line -= 1
        self._lock.release()


class ProducerTurns(dict[int, Turn]):
    """Turns by producer id; there is one only while somebody holds it or waits for it."""

    @asynccontextmanager
    async def held(self, producer_id: int) -> AsyncIterator[None]:
        turn = self.setdefault(producer_id, Turn())
        try:
            async with turn:
                yield
        finally:
            if not turn.in_line:
                del self[producer_id]
