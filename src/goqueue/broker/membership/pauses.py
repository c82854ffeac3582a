"""A process that stood still for longer than others wait for it must not answer from its memory.

A paused process does not know that it was: to it, no time has passed, and what it led may have had
another leader for an hour. Nothing is lost by that, for what it writes is not committed; but what
it would answer without writing may be old. So whoever answers looks at the clock first.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.model.errors import GoQueueError, NotLeader

logger = logging.getLogger(__name__)

# Ticks within the time that others wait: one that is late by a little is no pause.
_TICKS: Final = 4
_RETRY_S: Final = 0.2


class Pauses:
    def __init__(
        self,
        limit_s: float,
        catch_up: Callable[[], Awaitable[None]],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`catch_up` returns when this broker knows who leads what now."""
        self._limit_s = limit_s
        self._catch_up = catch_up
        self._clock_s = clock_s
        self._ticked_at_s = clock_s()
        self._tick: asyncio.TimerHandle | None = None
        self._catching_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._ticked_at_s = self._clock_s()
        self._beat()

    def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if self._catching_up is not None:
            self._catching_up.cancel()

    def check(self) -> None:
        """`NotLeader` from the end of a pause until this broker has caught up."""
        if self._catching_up is None:
            if self._clock_s() - self._ticked_at_s <= self._limit_s or self._tick is None:
                return
            self._paused()
        raise NotLeader("this broker stood still, and does not know yet what it leads; try again")

    def _beat(self) -> None:
        if self._catching_up is None and self._clock_s() - self._ticked_at_s > self._limit_s:
            self._paused()
        self._ticked_at_s = self._clock_s()
        loop = asyncio.get_running_loop()
        self._tick = loop.call_later(self._limit_s / _TICKS, self._beat)

    def _paused(self) -> None:
        stood_s = self._clock_s() - self._ticked_at_s
        logger.warning("this broker stood still for %.1f s", stood_s)
        self._catching_up = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        try:
            while True:
                try:
                    return await self._catch_up()
                except GoQueueError as error:
                    logger.warning("not known yet who leads what: %s", error)
                except Exception:
                    logger.exception("not known yet who leads what; tried again")
                await asyncio.sleep(_RETRY_S)
        finally:
            self._ticked_at_s = self._clock_s()
            self._catching_up = None
