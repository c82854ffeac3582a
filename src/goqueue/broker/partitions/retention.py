"""Retention, applied to one partition after another, for as long as the broker runs."""

import asyncio
import logging
from collections.abc import Iterable
from time import perf_counter
from typing import Final, Protocol

from goqueue.broker.own_grants import OwnWork, own_look
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.groups.messages import OffsetFetch, OffsetFetchResult
from goqueue.model.rights import DescribableGroup

logger = logging.getLogger(__name__)

# For each second that retention takes of the event loop, requests get this many.
OTHERS_SHARE: Final = 9


class CommittedOffsets(Protocol):
    async def fetch_offsets(
        self, group: DescribableGroup, request: OffsetFetch
    ) -> OffsetFetchResult: ...


async def apply_retention_forever(
    partitions: Iterable[HostedPartition], groups: CommittedOffsets, interval_ms: int
) -> None:
    """Drop what retention no longer keeps, at a pace that requests do not notice."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        for partition in partitions:
            began = perf_counter()
            try:
                await apply_retention(partition, groups)
                taken_seconds = perf_counter() - began
                await partition.purge_deleted()
            except Exception:
                taken_seconds = perf_counter() - began
                logger.exception("retention of %s failed; trying again later", partition.name)
            await asyncio.sleep(taken_seconds * OTHERS_SHARE)


async def apply_retention(partition: HostedPartition, groups: CommittedOffsets) -> None:
    archived_offset = await _archived_offset(partition, groups)
    lost_before = partition.log.unarchived_deleted_bytes
    freed_bytes = partition.apply_retention(archived_offset=archived_offset)
    if freed_bytes:
        logger.info("retention freed %d bytes of %s", freed_bytes, partition.name)
    lost_bytes = partition.log.unarchived_deleted_bytes - lost_before
    if lost_bytes:
        logger.error(
            "%s: %d bytes went before group %r had archived them, for the partition is larger "
            "than retention.archive.max.bytes, %d; see that its pipeline runs, or raise the limit",
            partition.name,
            lost_bytes,
            partition.config.retention_archive_group,
            partition.config.retention_archive_max_bytes,
        )


async def _archived_offset(partition: HostedPartition, groups: CommittedOffsets) -> int | None:
    """How far the group that retention waits for has come; None when it waits for nobody."""
    group = partition.config.retention_archive_group
    if not group:
        return None
    name = partition.name
    request = OffsetFetch(group_id=group, topics={name.topic: [name.partition]})
    fetched = await groups.fetch_offsets(own_look(group, OwnWork.RETENTION), request)
    # A group that has committed nothing, or whose coordinator has an error: nothing is archived.
    return max((found.offset for found in fetched.offsets), default=0)
