"""Records out of produced and stored batches, without holding up the event loop.

A batch of a few KB may unpack to the topic's `max.decompressed.message.bytes`. What is small is
decoded at once, the rest in a thread; large ones take their turns, so that they do not add up.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS, SIDE_BY_SIDE_BOUNDS, DecodingBounds
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
        self, batch: Buffer, bounds: DecodingBounds, pick: Callable[[list[Record]], T]
    ) -> T:
        """What the caller picks of the records, also in the thread: the event loop never has all
        of a large batch in hand. `UnpackedTooLarge` or `CorruptBatch` if they cannot be had.
        """
        try:
            records = decode_records(batch, ON_LOOP_BOUNDS)
        except UnpackedTooLarge:
            return await self.in_thread(
                lambda allowed: pick(decode_records(batch, allowed)), bounds
            )
        return pick(records)

    async def in_thread(self, work: Callable[[DecodingBounds], T], bounds: DecodingBounds) -> T:
        """Run what decodes batches too large for the event loop, up to `bounds`."""
        loop = asyncio.get_running_loop()
        allowed = DecodingBounds(*map(min, bounds, SIDE_BY_SIDE_BOUNDS))
        try:
            return await loop.run_in_executor(self._threads, work, allowed)
        except UnpackedTooLarge:
            if allowed == bounds:
                raise
        async with self._large:
            return await loop.run_in_executor(self._threads, work, bounds)

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
