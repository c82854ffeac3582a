"""What a partition tells that another node leads, kept at hand.

It is replayed from this node's own copy of the log, as far as that is committed: what was replayed
is never taken back. So when this node is elected it has to replay only the last records. A standby
writes nothing to the log, performs no effects and answers nobody.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from goqueue.broker.background import ended
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime.replaying import StateReplay
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.runtime.snapshots import STANDBY_MIN_GAP_MS, StateSnapshots
from goqueue.broker.runtime.stored_records import Overtaken
from goqueue.model.errors import CorruptBatch, GoQueueError, OffsetOutOfRange
from goqueue.state.machine import Machine

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)

# Between two looks at a log that grows: what is left for a new leader to replay. Shorter ones would
# read it in smaller pieces, which takes longer.
PAUSE_S: Final = 0.1
# Before another try, when the disk did not do.
RETRY_S: Final = 1.0


class LogStandby(ABC):
    """Keeps up with a copy of a log, whatever is made of it."""

    def __init__(
        self, hosted: HostedPartition, leisure: AtLeisure, has_ended: Callable[[], None]
    ) -> None:
        """`has_ended` is told when the copy is closed."""
        self._hosted = hosted
        self._leisure = leisure
        self._has_ended = has_ended
        # What is being read or was replayed lies below.
        self._reads_below = 0
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def _next_offset(self) -> int | None:
        """How far it was replayed; None if that has not begun."""

    @abstractmethod
    async def _begin(self, end: int) -> bool:
        """Replay from the start, at most to `end`. False: not before more is committed."""

    @abstractmethod
    async def _follow(self, end: int) -> bool:
        """Go on to `end`. False if it was there."""

    @abstractmethod
    def _forget(self) -> None:
        """What was replayed is of no use any more."""

    # --- as its copy tells it -------------------------------------------------------------

    @property
    def lag(self) -> int:
        done = self._next_offset
        start = self._hosted.log_start_offset if done is None else done
        return max(0, self._hosted.high_watermark - start)

    def advanced(self) -> None:
        if self._task is None and not self._is_over:
            self._task = asyncio.create_task(self._keep_up())
            self._task.add_done_callback(self._stopped)

    def cut(self, offset: int) -> None:
        if offset < max(self._reads_below, self._next_offset or 0):
            self._forget()
            self._reads_below = 0
            if self._task is not None:
                self._task.cancel()

    def end(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
        self._forget()
        self._has_ended()

    async def _stop(self) -> None:
        """Leave everything as it is."""
        self._is_over = True
        await ended(self._task)

    # --- keeping up -----------------------------------------------------------------------

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        # After a cut there is nothing to replay before more is committed.
        if not task.cancelled() and self._hosted.high_watermark > self._reads_below:
            self.advanced()

    async def _keep_up(self) -> None:
        try:
            is_behind = True
            while is_behind:
                is_behind = await self._catch_up()
                await asyncio.sleep(PAUSE_S)
        except CorruptBatch as error:
            # Who leads it one day says so to those who can do something about it.
            logger.warning("%s is not kept at hand: %s", self._hosted.name, error)
            self._give_up()
        except Exception:
            logger.exception("%s is not kept at hand", self._hosted.name)
            self._give_up()

    def _give_up(self) -> None:
        self._is_over = True
        self._forget()

    async def _catch_up(self) -> bool:
        """Replay what is committed now. False: there is nothing to do before more is."""
        end = self._hosted.high_watermark
        self._reads_below = max(self._reads_below, end)
        try:
            if self._next_offset is not None:
                return await self._follow(end)
            if self._hosted.lag:
                # What is copied now may be compacted: who follows it begins again and again.
                return False
            async with self._leisure.beginning:
                return await self._begin(end)
        except (Overtaken, OffsetOutOfRange) as error:
            logger.info("%s is replayed anew: %s", self._hosted.name, error)
            self._forget()
        except CorruptBatch:
            raise
        except GoQueueError as error:
            logger.warning("%s is replayed later: %s", self._hosted.name, error)
            await asyncio.sleep(RETRY_S)
        return True


class StateStandby(LogStandby, Generic[M]):
    """A state machine that somebody else runs."""

    def __init__(
        self,
        hosted: HostedPartition,
        make: Callable[[], M],
        *,
        leisure: AtLeisure,
        has_ended: Callable[[], None],
    ) -> None:
        super().__init__(hosted, leisure, has_ended)
        self._make = make
        self._replay: StateReplay[M] | None = None
        self._snapshots = StateSnapshots(
            hosted.log,
            hosted.readers,
            clock_ms=hosted.clock_ms,
            committed=lambda: hosted.high_watermark,
            min_gap_ms=STANDBY_MIN_GAP_MS,
        )
        self.advanced()

    async def hand_over(self) -> StateReplay[M] | None:
        """This node leads now: the machine as far as it got. None if it must be loaded."""
        await self._stop()
        replay = self._replay
        self._forget()
        return replay

    @property
    def _next_offset(self) -> int | None:
        return None if self._replay is None else self._replay.next_offset

    async def _begin(self, end: int) -> bool:
        log = self._hosted.log
        if end < log.compaction.first_dirty_offset:
            # How far it is committed was known better before this broker started.
            return False
        replay = StateReplay(self._make(), log, self._hosted.readers)
        await replay.begin(end, self._leisure)
        self._snapshots.entries = replay.entries
        self._replay = replay
        return True

    async def _follow(self, end: int) -> bool:
        assert self._replay is not None
        count = await self._replay.follow(end, self._leisure)
        self._snapshots.grown(count)
        return count > 0

    def _forget(self) -> None:
        self._replay = None
        if self._is_over:
            self._snapshots.close()
