"""Messages between two offsets of a partition, counted without reading them.

The work is done in a thread, a step at a time (see `goqueue.storage.record_counts`). Those who ask
take turns between steps: who asks a thousand times waits for itself, and not everyone for it.
"""

import asyncio
from time import monotonic
from typing import Final

from goqueue.broker.fair_turns import FairTurns
from goqueue.broker.partitions.partition import Partition
from goqueue.model.aborted import AbortedBatches
from goqueue.model.errors import OffsetOutOfRange, Overloaded
from goqueue.model.log import LATEST_TIMESTAMP, CountRequest, Isolation, RecordCount
from goqueue.storage.record_counts import STEP_OFFSETS_MAX, CountedRecords

# An answer comes in about this time, with what is counted until then: shorter than clients wait.
COUNTING_SECONDS: Final = 2.0
# Of one asker: more than the tasks that a Spark worker runs at once.
WAITING_MAX: Final = 256


class RecordCounting:
    """One for all partitions."""

    def __init__(self, *, seconds_max: float = COUNTING_SECONDS) -> None:
        self._seconds_max = seconds_max
        self._turns = FairTurns()

    async def count(self, partition: Partition, wanted: CountRequest, *, asker: str) -> RecordCount:
        """Begins at the log's start and ends where readers of this isolation do, unless `wanted`
        says otherwise; `OffsetOutOfRange` if it says more than that."""
        partition.check_online()
        if self._turns.waiting(asker) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} counts wait for their turn; try again in a second")
        isolation = wanted.isolation
        first, end = await _limits(partition, wanted)
        until = monotonic() + self._seconds_max
        records, offset = 0, first
        while True:
            partition.check_online()
            known = partition.log.known_count(
                offset, end, without_aborted=isolation is Isolation.READ_COMMITTED
            )
            records, offset = records + known.records, known.next_offset
            if offset >= end or (offset > first and monotonic() >= until):
                break
            counted = await self._step(partition, offset, end, isolation, asker)
            records, offset = records + counted.records, counted.next_offset
        return RecordCount(
            topic_id=partition.log.topic_id,
            records=records,
            first_offset=first,
            end_offset=end,
            next_offset=offset,
        )

    async def _step(
        self, partition: Partition, offset: int, end: int, isolation: Isolation, asker: str
    ) -> CountedRecords:
        async with self._turns.turn(asker):
            partition.check_online()
            aborted = None
            if isolation is Isolation.READ_COMMITTED:
                # Before the thread looks for the segment: compaction forgets what was aborted when
                # the records are gone.
                aborted = AbortedBatches(
                    partition.aborted_between(offset, min(end, offset + STEP_OFFSETS_MAX))
                )
            return await asyncio.get_running_loop().run_in_executor(
                partition.hosted.readers,
                lambda: partition.log.count(offset, end, aborted=aborted),
            )


async def _limits(partition: Partition, wanted: CountRequest) -> tuple[int, int]:
    log_start = partition.log_start_offset
    readable_end = partition.readable_end(wanted.isolation)
    first = log_start if wanted.first_offset is None else wanted.first_offset
    end = wanted.end_offset
    if end is None:
        end = (await partition.list_offset(LATEST_TIMESTAMP, isolation=wanted.isolation)).offset
    for offset in (first, end):
        if not log_start <= offset <= readable_end:
            raise OffsetOutOfRange(
                f"{partition.name}: offset {offset} is outside {log_start} to {readable_end}"
            )
    return first, end
