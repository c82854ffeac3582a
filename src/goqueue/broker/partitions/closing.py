"""Close all partitions of a broker that stops, within a bound.

What is left when time is up stays as after `kill -9`: nothing acknowledged is lost by that, and the
next start verifies these logs. Those that were closed are noted with their ends.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.errors import GoQueueError
from goqueue.storage.clean_stop import LogEnd

logger = logging.getLogger(__name__)

# Container platforms kill after 10 to 30 seconds, a person loses patience sooner. Doors have one
# second before this, and what comes after is short: five seconds in all.
CLOSE_SECONDS_MAX: Final = 3.0
# Flushes of different files share one commit of the file system's journal, so that more at a time
# are cheaper each; beyond this nothing is gained.
CLOSING_THREADS: Final = 16


async def close_partitions(
    partitions: Iterable[HostedPartition], *, seconds_max: float = CLOSE_SECONDS_MAX
) -> dict[str, LogEnd]:
    """Flush and close; returns where those ended that are on disk as a whole, by folder."""
    deadline = time.monotonic() + seconds_max
    healthy = [partition for partition in partitions if partition.offline_reason is None]
    broken = [partition for partition in partitions if partition.offline_reason is not None]
    for partition in (*healthy, *broken):
        partition.stop_taking()
    for partition in (*healthy, *broken):
        await partition.retire()
    for partition in broken:
        partition.let_go()
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="goqueue-close")
    closing = [loop.run_in_executor(threads, _close, partition, deadline) for partition in healthy]
    ends = await asyncio.gather(*closing)
    threads.shutdown(wait=True)
    left = sum(end is None for end in ends)
    if left:
        logger.warning(
            "%d of %d partitions were not closed in order; the next start verifies them",
            left + len(broken),
            len(ends) + len(broken),
        )
    return {
        partition.log.path.name: end
        for partition, end in zip(healthy, ends, strict=True)
        if end is not None
    }


def _close(partition: HostedPartition, deadline: float) -> LogEnd | None:
    """Blocking. None if it did not work, or was not begun in time."""
    if time.monotonic() >= deadline:
        partition.let_go()
        return None
    try:
        return partition.close_files()
    except (GoQueueError, OSError) as error:
        logger.error("partition %s did not close cleanly: %s", partition.name, error)
        return None
