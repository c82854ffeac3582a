"""When the state that a log tells is written down beside it, so that a start reads less of it."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from goqueue.broker.runtime.table import StateTable
from goqueue.model.errors import GoQueueError
from goqueue.storage.log import PartitionLog

logger = logging.getLogger(__name__)

SNAPSHOT_RECORDS: Final = 10_000
SNAPSHOT_INTERVAL_MS: Final = 5 * 60 * 1000
# A busy log would otherwise be read all the time: at 100,000 records/s, ten snapshots a second.
SNAPSHOT_MIN_GAP_MS: Final = 10_000
# A standby has the state at hand: its snapshots are only for when its broker starts again.
STANDBY_MIN_GAP_MS: Final = 60_000


class StateSnapshots:
    """Of one log, while this broker leads it, or stands by."""

    def __init__(
        self,
        log: PartitionLog,
        threads: Executor,
        *,
        clock_ms: Callable[[], int],
        committed: Callable[[], int],
        min_gap_ms: int,
    ) -> None:
        """`committed` is the offset up to which the log cannot change any more."""
        self._log = log
        self._threads = threads
        self._clock_ms = clock_ms
        self._committed = committed
        self._min_gap_ms = min_gap_ms
        # How many entries the state has, as far as is known.
        self.entries = 0
        self._records = 0
        self._at_ms = clock_ms()
        self._writing: asyncio.Task[None] | None = None

    def grown(self, records: int) -> None:
        """The log has so many more records."""
        self._records += records
        if self._writing is not None:
            return
        age_ms = self._clock_ms() - self._at_ms
        # A large state is written less often, so that the work stays proportional to the changes.
        enough = self._records >= max(SNAPSHOT_RECORDS, self.entries)
        if (enough and age_ms >= self._min_gap_ms) or age_ms >= SNAPSHOT_INTERVAL_MS:
            self._writing = asyncio.create_task(self.write())

    async def write(self) -> None:
        """Write down the committed state. It is read from the log: no command waits for it."""
        log, end = self._log, self._committed()
        self._records = 0
        self._at_ms = self._clock_ms()
        loop = asyncio.get_running_loop()
        try:
            self.entries = await loop.run_in_executor(self._threads, _write, log, end)
        except (OSError, GoQueueError) as error:
            logger.warning("no snapshot of %s this time: %s", log.name, error)
        finally:
            self._writing = None

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()


def _write(log: PartitionLog, end: int) -> int:
    table = StateTable.load(log, up_to=end)
    table.save(log)
    return len(table.entries)
