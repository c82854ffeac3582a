"""Publishing and reading single records, for doors that do not speak in batches."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from goqueue.broker.partitions.committed_records import committed_records
from goqueue.broker.tracing.recorder import continuing_part
from goqueue.model.errors import InvalidRequest, UnknownPartition
from goqueue.model.log import FetchedPart, FetchPart, Isolation, Produced, Published, RecordPage
from goqueue.model.partitioner import partition_for_key
from goqueue.model.records import NewRecord, encode_records

PUBLISH_TIMEOUT_MS = 30_000


class Log(Protocol):
    """The part of the broker that this file needs."""

    async def produce(
        self,
        topic: str,
        index: int,
        records: bytearray,
        *,
        acks: int,
        timeout_ms: int,
        is_checked: bool,
    ) -> Produced: ...

    async def fetch(
        self,
        wanted: Sequence[FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
    ) -> list[FetchedPart]: ...


async def publish(
    log: Log,
    topic: str,
    records: Sequence[NewRecord],
    *,
    partition: int | None,
    partition_count: int,
    acks: int,
    now_ms: int,
) -> list[Published]:
    """Append records, each to its partition, and answer in the order given.

    Records of one partition form one batch: they are stored together or not at all.
    """
    if not records:
        raise InvalidRequest("messages: at least one is needed")
    if partition is not None and not 0 <= partition < partition_count:
        raise UnknownPartition(
            f"partition {partition} is not one of topic {topic!r}: it has {partition_count}"
        )
    by_partition = spread(records, [partition] * len(records), partition_count)
    produced = await asyncio.gather(
        *(
            continuing_part(
                positions,
                log.produce(
                    topic,
                    index,
                    encode_records([records[position] for position in positions], now_ms=now_ms),
                    acks=acks,
                    timeout_ms=PUBLISH_TIMEOUT_MS,
                    is_checked=True,
                ),
            )
            for index, positions in by_partition.items()
        )
    )
    return published(records, by_partition, produced, now_ms)


def spread(
    records: Sequence[NewRecord], chosen: Sequence[int | None], partition_count: int
) -> dict[int, list[int]]:
    """Positions of records by the partition that was chosen for each, else by its key."""
    # Records without a key stick to one partition per call, so that they share a batch (KIP-480).
    sticky = random.randrange(partition_count)
    by_partition: dict[int, list[int]] = {}
    for position, (record, index) in enumerate(zip(records, chosen, strict=True)):
        if index is None:
            index = sticky if record.key is None else partition_for_key(record.key, partition_count)
        by_partition.setdefault(index, []).append(position)
    return by_partition


def published(
    records: Sequence[NewRecord],
    by_partition: Mapping[int, Sequence[int]],
    produced: Sequence[Produced],
    now_ms: int,
) -> list[Published]:
    """Where each record went, in the order given."""
    stored_at: dict[int, Published] = {}
    for (index, positions), stored in zip(by_partition.items(), produced, strict=True):
        for delta, position in enumerate(positions):
            timestamp_ms = records[position].timestamp_ms
            if stored.append_time_ms >= 0:
                timestamp_ms = stored.append_time_ms
            elif timestamp_ms is None:
                timestamp_ms = now_ms
            stored_at[position] = Published(index, stored.base_offset + delta, timestamp_ms)
    return [stored_at[position] for position in range(len(records))]


async def read_records(
    log: Log,
    topic: str,
    index: int,
    offset: int,
    *,
    limit: int,
    max_bytes: int,
    max_wait_ms: int,
    isolation: Isolation,
) -> RecordPage:
    """Records from `offset` on. `next_offset` is where to go on, also past what was left out."""
    part = FetchPart(topic, index, offset, max_bytes)
    [found] = await log.fetch(
        [part], max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation=isolation
    )
    if found.error is not None:
        raise found.error
    run = committed_records(found, offset, limit)
    return RecordPage(
        records=run.records,
        next_offset=run.next_offset,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
    )
