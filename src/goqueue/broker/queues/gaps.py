"""Offsets of partitions that are no messages for queue readers: control batches, aborted
transactions, what compaction removed. So that depths count messages.

Found by the headers of batches, from the floor of a queue on, and only when somebody asks for
figures: each part of a log is looked through once. Volatile.
"""

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from goqueue.broker.partitions.partition import Partition
from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import iterate_batches
from goqueue.model.log import Isolation
from goqueue.state.queues.range_set import RangeSet

READ_BYTES: Final = 1_048_576
# For one question; about 50 ms, in slices of a read. The next question goes on from there: until
# the end is reached, every offset that was not looked at counts as a message.
LOOK_BYTES: Final = 64 * READ_BYTES
# Some megabytes for a partition; a topic of many small transactions has a marker for each.
GAPS_MAX: Final = 50_000

_NONE: Final = RangeSet()


class _Looked:
    """The part of a partition that was looked through, and its gaps."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.gaps = RangeSet()


class QueueGaps:
    def __init__(self) -> None:
        self._looked: WeakKeyDictionary[Partition, _Looked] = WeakKeyDictionary()
        self._looking = asyncio.Lock()
        # Since the start.
        self.looked_bytes = 0

    def known(self, partition: Partition) -> RangeSet:
        """As far as it was looked through."""
        looked = self._looked.get(partition)
        return _NONE if looked is None else looked.gaps

    async def look_through(self, partition: Partition, start: int) -> RangeSet:
        """The gaps of a partition from `start` on."""
        async with self._looking:
            start = max(start, partition.log_start_offset)
            looked = self._looked.get(partition)
            if (
                looked is None
                or not looked.start <= start <= looked.end
                or len(looked.gaps) >= GAPS_MAX
                # Its gaps grow where it was looked through already.
                or "compact" in partition.config.cleanup_policy
            ):
                looked = _Looked(start)
            self._looked[partition] = looked
            left_bytes = LOOK_BYTES
            while left_bytes > 0 and len(looked.gaps) < GAPS_MAX:
                size_bytes = await _look_further(partition, looked)
                if not size_bytes:
                    break
                left_bytes -= size_bytes
                self.looked_bytes += size_bytes
                # Others get their turn: what is in the page cache is read without a wait.
                await asyncio.sleep(0)
            return looked.gaps


async def _look_further(partition: Partition, looked: _Looked) -> int:
    """Returns the bytes read, 0 at the end."""
    start = looked.end
    found = await partition.look(start, READ_BYTES, isolation=Isolation.READ_COMMITTED)
    if not found.data:
        return 0
    aborted = AbortedBatches(partition.aborted_between(start, found.next_offset))
    for _, header in iterate_batches(found.data):
        if header.is_control or aborted.has(header):
            looked.gaps.add(max(header.base_offset, start), header.next_offset)
        elif header.record_count < header.next_offset - header.base_offset:
            # Which of them are gone is not in the header; how many is.
            end_of_records = header.base_offset + header.record_count
            looked.gaps.add(max(end_of_records, start), header.next_offset)
        looked.end = header.next_offset
    return len(found.data)
