"""Records out of produced and stored batches, without holding up the event loop.

A batch of a few KB may unpack to the topic's `max.decompressed.message.bytes`. What is small is
decoded at once; the rest in a thread, one batch at a time, so that many of them do not add up.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS, DecodingBounds
from goqueue.model.errors import CorruptBatch, UnpackedTooLarge
from goqueue.model.names import TopicPartition
from goqueue.model.records import Record, decode_records

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Batches of all partitions about which was complained: a reader may come back to one for ever.
COMPLAINTS_MAX: Final = 1_000


class BatchDecoder:
    """One for all partitions."""

    def __init__(self, threads: Executor) -> None:
        # Batches that readers had to pass over since the start.
        self.passed_over = 0
        self._threads = threads
        self._large = asyncio.Lock()
        self._complaints: OrderedDict[tuple[TopicPartition, int], None] = OrderedDict()

    async def decode(
        self,
        batch: Buffer,
        bounds: DecodingBounds,
        *,
        on_loop: DecodingBounds = ON_LOOP_BOUNDS,
    ) -> list[Record]:
        """The records of one batch; `UnpackedTooLarge` or `CorruptBatch` if they cannot be had."""
        try:
            return decode_records(batch, on_loop)
        except UnpackedTooLarge:
            return await self.in_thread(lambda: decode_records(batch, bounds))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run what decodes large batches, when no other such work runs."""
        async with self._large:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def complain(self, name: TopicPartition, header: BatchHeader, error: CorruptBatch) -> None:
        """Say once of a stored batch that readers of single records do not get it."""
        place = (name, header.base_offset)
        if place in self._complaints:
            self._complaints.move_to_end(place)
            return
        self._complaints[place] = None
        if len(self._complaints) > COMPLAINTS_MAX:
            self._complaints.popitem(last=False)
        self.passed_over += 1
        logger.error(
            "%s: offsets %d to %d cannot be decoded and are passed over: %s",
            name,
            header.base_offset,
            header.last_offset,
            error,
        )
