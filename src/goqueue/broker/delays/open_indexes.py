"""Which indexes of delayed messages have their files open: those that were used last."""

import asyncio
import logging
from collections import OrderedDict
from typing import Final, Protocol

from goqueue.broker.background import ended

logger = logging.getLogger(__name__)

# Each holds three descriptors, and keeps up to 8 MB of its table in memory. To open one again takes
# about a millisecond.
OPEN_MAX: Final = 16
# Of those that are read at a start. More would only wait for each other, and all be open meanwhile.
BEGINNING_MAX: Final = 8


class Restable(Protocol):
    async def rest(self) -> None:
        """Let go of the files until they are needed again."""
        ...


class OpenIndexes:
    """Beyond the bound, which those in use may exceed for a moment, the files of others close."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = OPEN_MAX if limit is None else limit
        # The one that was used last comes last.
        self._open: OrderedDict[Restable, None] = OrderedDict()
        self._resting: asyncio.Task[None] | None = None
        # Held while an index is read at a start.
        self.beginning = asyncio.Semaphore(BEGINNING_MAX)

    def used(self, index: Restable) -> None:
        self._open[index] = None
        self._open.move_to_end(index)
        if len(self._open) > self._limit and self._resting is None:
            self._resting = asyncio.create_task(self._rest_some())
            self._resting.add_done_callback(self._rested)

    def closed(self, index: Restable) -> None:
        self._open.pop(index, None)

    async def close(self) -> None:
        await ended(self._resting)

    async def _rest_some(self) -> None:
        while len(self._open) > self._limit:
            longest_unused, _ = self._open.popitem(last=False)
            try:
                await longest_unused.rest()
            except Exception:
                logger.exception("an index of delayed messages cannot be closed")

    def _rested(self, _: "asyncio.Task[None]") -> None:
        self._resting = None
