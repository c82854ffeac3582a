"""Retention, applied to one partition after another, for as long as the broker runs."""

import asyncio
import logging
from collections.abc import Iterable
from time import perf_counter
from typing import Final, Protocol

from goqueue.broker.own_grants import OwnWork, own_look
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import OffsetFetch, OffsetFetchResult
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.rights import DescribableGroup

logger = logging.getLogger(__name__)

# For each second that retention takes of the event loop, requests get this many.
OTHERS_SHARE: Final = 9


class CommittedOffsets(Protocol):
    """Of groups, wherever they are coordinated; raises while a coordinator cannot be asked."""

    async def fetch_offsets(
        self, group: DescribableGroup, request: OffsetFetch, *, patience_s: float
    ) -> OffsetFetchResult: ...


async def apply_retention_forever(
    partitions: Iterable[HostedPartition], groups: CommittedOffsets, interval_ms: int
) -> None:
    """Drop what retention no longer keeps, at a pace that requests do not notice."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        for partition in partitions:
            taken_seconds = 0.0
            try:
                taken_seconds = await apply_retention(partition, groups)
                await partition.purge_deleted()
            except GoQueueError as error:
                logger.warning("retention of %s waits: %s", partition.name, error)
            except Exception:
                logger.exception("retention of %s failed; trying again later", partition.name)
            await asyncio.sleep(taken_seconds * OTHERS_SHARE)


async def apply_retention(partition: HostedPartition, groups: CommittedOffsets) -> float:
    """Returns the seconds that it took of the event loop."""
    archived_offset = await _archived_offset(partition, groups)
    began = perf_counter()
    _drop(partition, archived_offset)
    return perf_counter() - began


def _drop(partition: HostedPartition, archived_offset: int | None) -> None:
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
    # A follower's log starts where its leader's does.
    if not group or partition.led is None:
        return None
    name = partition.name
    request = OffsetFetch(group_id=group, topics={name.topic: [name.partition]})
    try:
        # Other partitions need not wait for a coordinator that is away.
        fetched = await groups.fetch_offsets(
            own_look(group, OwnWork.RETENTION), request, patience_s=0
        )
    except GroupRefused:
        return 0  # there never was a group
    # A group that has committed nothing: nothing is archived.
    return max((found.offset for found in fetched.offsets), default=0)
