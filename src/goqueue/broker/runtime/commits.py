"""Waiting for what a new leader found in its log."""

from contextlib import suppress
from typing import Final

from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import RequestTimedOut

# One wait of many: the leader waits for other replicas for as long as it leads.
WAIT_MS: Final = 30_000


async def until_committed(partition: Partition, offset: int) -> None:
    """Return once everything below `offset` is committed; `NotLeader` if that is not for us."""
    while partition.high_watermark < offset:
        with suppress(RequestTimedOut):
            await partition.wait_committed(offset, WAIT_MS)
