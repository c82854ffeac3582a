"""Work that comes round: retention."""

import asyncio
import logging
from collections.abc import Iterable

from goqueue.broker.partition import Partition

logger = logging.getLogger(__name__)


async def apply_retention_forever(partitions: Iterable[Partition], interval_ms: int) -> None:
    """Drop what retention no longer keeps, one partition per turn of the event loop."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        for partition in partitions:
            try:
                freed_bytes = partition.apply_retention()
            except Exception:
                logger.exception("retention of %s failed; trying again later", partition.name)
                continue
            if freed_bytes:
                logger.info("retention freed %d bytes of %s", freed_bytes, partition.name)
            await asyncio.sleep(0)
