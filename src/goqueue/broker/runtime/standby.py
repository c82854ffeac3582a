"""The state of a partition that another node leads, kept at hand.

It is replayed from this node's own copy of the log, as far as that is committed: what is replayed
is never taken back. So when this node is elected it has to replay only the last records. A standby
writes nothing to the log, performs no effects and answers nobody.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from goqueue.broker.background import ended
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime.replaying import Overtaken, StateReplay
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.runtime.snapshots import STANDBY_MIN_GAP_MS, StateSnapshots
from goqueue.model.errors import CorruptBatch, GoQueueError, OffsetOutOfRange
from goqueue.state.machine import Machine

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)

# Between two looks at a log that grows: what is left for a new leader to replay. Shorter ones would
# read it in smaller pieces, which takes longer.
PAUSE_S: Final = 0.1
# Before another try, when the disk did not do.
RETRY_S: Final = 1.0


class StateStandby(Generic[M]):
    def __init__(
        self,
        hosted: HostedPartition,
        make: Callable[[], M],
        *,
        leisure: AtLeisure,
        ended: Callable[[], None],
    ) -> None:
        """`ended` is told when its copy is closed."""
        self._hosted = hosted
        self._make = make
        self._leisure = leisure
        self._ended = ended
        self._replay: StateReplay[M] | None = None
        # What is being read or was replayed lies below.
        self._reads_below = 0
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._snapshots = StateSnapshots(
            hosted.log,
            hosted.readers,
            clock_ms=hosted.clock_ms,
            committed=lambda: hosted.high_watermark,
            min_gap_ms=STANDBY_MIN_GAP_MS,
        )
        self.advanced()

    # --- as its copy tells it -------------------------------------------------------------

    @property
    def lag(self) -> int:
        replay = self._replay
        done = self._hosted.log_start_offset if replay is None else replay.next_offset
        return max(0, self._hosted.high_watermark - done)

    def advanced(self) -> None:
        if self._task is None and not self._is_over:
            self._task = asyncio.create_task(self._keep_up())
            self._task.add_done_callback(self._stopped)

    def cut(self, offset: int) -> None:
        if offset < self._reads_below:
            self._replay = None
            self._reads_below = 0
            if self._task is not None:
                self._task.cancel()

    def end(self) -> None:
        self._stop()
        self._replay = None
        self._ended()

    async def hand_over(self) -> StateReplay[M] | None:
        """This node leads now: the machine as far as it got. None if it must be loaded."""
        self._stop()
        await ended(self._task)
        replay, self._replay = self._replay, None
        return replay

    def _stop(self) -> None:
        self._is_over = True
        self._snapshots.close()
        if self._task is not None:
            self._task.cancel()

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
            self._give_up(error)
        except Exception as error:
            logger.exception("%s: replaying failed", self._hosted.name)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.warning("%s: its state is not kept at hand: %s", self._hosted.name, error)
        self._is_over = True
        self._replay = None

    async def _catch_up(self) -> bool:
        """Replay what is committed now. False: there is nothing to do before more is."""
        end = self._hosted.high_watermark
        self._reads_below = max(self._reads_below, end)
        try:
            if self._replay is None:
                return await self._begin(end)
            count = await self._replay.follow(end, self._leisure)
            self._snapshots.grown(count)
            return count > 0
        except (Overtaken, OffsetOutOfRange) as error:
            logger.info("%s: replayed anew: %s", self._hosted.name, error)
            self._replay = None
        except CorruptBatch:
            raise
        except GoQueueError as error:
            logger.warning("%s: replayed later: %s", self._hosted.name, error)
            await asyncio.sleep(RETRY_S)
        return True

    async def _begin(self, end: int) -> bool:
        log = self._hosted.log
        if end < log.compaction.first_dirty_offset:
            # What is committed was known better before this broker started.
            return False
        async with self._leisure.beginning:
            replay = StateReplay(self._make(), log, self._hosted.readers)
            await replay.begin(end, self._leisure)
        self._snapshots.entries = replay.entries
        self._replay = replay
        return True
