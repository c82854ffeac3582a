"""The delayed messages of a partition that another node leads, kept at hand, with their index."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from goqueue.broker.background import ended
from goqueue.broker.delays.indexed import IndexedDelays
from goqueue.broker.delays.open_indexes import OpenIndexes
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.runtime.standby import LogStandby
from goqueue.model.errors import GoQueueError

logger = logging.getLogger(__name__)

# The leader has taken in hand what was due before that, unless it is in trouble.
OVERDUE_MS: Final = 5_000
OVERDUE_AT_ONCE: Final = 1_000
# Messages come closer also while nothing happens in the log, and hours of them are in memory.
IDLE_S: Final = 300.0
# Between two slices of the index: nobody waits for it.
INDEX_PAUSE_MS: Final = 10


class DelayStandby(LogStandby):
    def __init__(
        self,
        hosted: HostedPartition,
        *,
        threads: Executor,
        leisure: AtLeisure,
        open_indexes: OpenIndexes,
        files_free: "asyncio.Task[None] | None",
        has_ended: Callable[[], None],
    ) -> None:
        """`files_free` is over when nobody else uses the index any more."""
        super().__init__(hosted, leisure, has_ended)
        self._threads = threads
        self._open_indexes = open_indexes
        self._delays: IndexedDelays | None = None
        # The end of whoever used the index before.
        self.files_free = files_free
        self._upkeep: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.advanced()

    async def hand_over(self) -> IndexedDelays | None:
        """This node leads now: what it has, as far as it got. None if it must be loaded."""
        await self._stop()
        delays, self._delays = self._delays, None
        if delays is None:
            await self._when_files_are_free()
        return delays

    async def close(self) -> None:
        """The broker stops: leave an index, so that the next start replays little."""
        await self._stop()
        await ended(self._upkeep)
        delays = self._delays
        if delays is not None and delays.is_index_worth_while and delays.machine.is_between_groups:
            try:
                await delays.update()
            except GoQueueError as error:
                logger.warning("%s is replayed at the next start: %s", self._hosted.name, error)
        self._forget()
        await self._when_files_are_free()

    # --- keeping up -----------------------------------------------------------------------

    @property
    def _next_offset(self) -> int | None:
        return None if self._delays is None else self._delays.next_offset

    async def _begin(self, end: int) -> bool:
        hosted = self._hosted
        if end <= hosted.log_start_offset:
            return False
        await self._when_files_are_free()
        delays = IndexedDelays(
            hosted.log,
            clock_ms=hosted.clock_ms,
            threads=self._threads,
            open_indexes=self._open_indexes,
        )
        try:
            await delays.begin(self._leisure)
            await delays.rest()
        except BaseException:
            await delays.close()
            raise
        self._delays = delays
        return True

    async def _follow(self, end: int) -> bool:
        delays = self._delays
        assert delays is not None
        count = await delays.follow(end, self._leisure)
        delays.set_overdue_aside(self._hosted.clock_ms() - OVERDUE_MS, OVERDUE_AT_ONCE)
        if self._upkeep is None and (delays.is_index_due or delays.is_cooling):
            self._upkeep = asyncio.create_task(self._look_after(delays))
            self._upkeep.add_done_callback(self._looked_after)
        return count > 0

    def _forget(self) -> None:
        delays, self._delays = self._delays, None
        if self._upkeep is not None:
            self._upkeep.cancel()
        if delays is not None:
            self.files_free = asyncio.create_task(delays.close())

    async def _when_files_are_free(self) -> None:
        if self.files_free is not None:
            await asyncio.wait((self.files_free,))

    # --- upkeep ---------------------------------------------------------------------------

    async def _look_after(self, delays: IndexedDelays) -> None:
        try:
            if delays.is_index_due:
                await delays.update(pause_ms=INDEX_PAUSE_MS)
            if delays.is_cooling:
                await delays.warm()
            await delays.rest()
        except GoQueueError as error:
            logger.warning("%s is looked after later: %s", self._hosted.name, error)
        except Exception:
            logger.exception("%s is looked after later", self._hosted.name)

    def _looked_after(self, _: "asyncio.Task[None]") -> None:
        self._upkeep = None

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        super()._stopped(task)
        if self._idle is not None:
            self._idle.cancel()
        delays = self._delays
        if not self._is_over and delays is not None and delays.machine.live_bytes:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.advanced)
