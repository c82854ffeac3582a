"""Looks after the shards of delayed messages that run here: one loop for all of them.

What was written to is looked at every second, the others in turn every ten: for them only time
passes, and nothing that has to be done depends on a few seconds of it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, Protocol

from goqueue.broker.background import ended
from goqueue.model.errors import GoQueueError

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1_000
# Shards that were not written to have their turn after as many rounds.
IDLE_ROUNDS: Final = 10
# As many as there are threads for the indexes.
AT_ONCE: Final = 4


class LookedAfter(Protocol):
    """A shard."""

    @property
    def name(self) -> object: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def is_upkeep_due(self) -> bool: ...
    async def upkeep(self) -> None: ...


class DelayUpkeep:
    def __init__(self, shards: Callable[[], Collection[LookedAfter]]) -> None:
        """`shards` are those that run at the moment."""
        self._shards = shards
        # Where the log of each ended when it was looked at last.
        self._seen: dict[LookedAfter, int] = {}
        self._round = 0
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._at_work: dict[LookedAfter, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """There is something to look after; more than once does no harm."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def leave(self, shard: LookedAfter) -> None:
        """Return when the shard, which runs no more, is left alone."""
        self._seen.pop(shard, None)
        await ended(self._at_work.get(shard))

    async def close(self) -> None:
        await ended(self._task)
        for task in self._at_work.values():
            task.cancel()
        await asyncio.gather(*self._at_work.values(), return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_MS / 1000)
            self.look()

    def look(self) -> None:
        """One round: begin what is due."""
        self._round += 1
        seen = self._seen
        for at, shard in enumerate(self._shards()):
            end = shard.end_offset
            if seen.get(shard) == end and (at + self._round) % IDLE_ROUNDS:
                continue
            seen[shard] = end
            if shard not in self._at_work and shard.is_upkeep_due:
                self._at_work[shard] = asyncio.create_task(self._look_after(shard))

    async def _look_after(self, shard: LookedAfter) -> None:
        try:
            async with self._at_once:
                await shard.upkeep()
        except GoQueueError as error:
            logger.warning("%s is looked after later: %s", shard.name, error)
        except Exception:
            logger.exception("%s is looked after later", shard.name)
        finally:
            self._at_work.pop(shard, None)
