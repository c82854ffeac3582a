"""Which messages to read, and reading them with aiokafka."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from goqueue.cli.failures import CommandFailed

# Messages handed on at a time: large enough for speed, small enough to start printing soon.
_PAGE_RECORDS: Final = 5_000
# How long one wait for data takes; then the end is looked at again.
_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    topic: str
    partition: int | None
    from_offset: int | None
    from_ms: int | None
    until_ms: int | None
    from_end: bool
    follow: bool
    limit: int | None


async def read_messages(bootstrap: str, wanted: ReadRange) -> AsyncIterator[list[Any]]:
    """Yield messages page by page; without `follow`, up to what was the end at the start."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    try:
        await consumer.start()
        partitions = await _partitions(consumer, wanted)
        ends = await consumer.end_offsets(partitions)
        starts = await _starts(consumer, wanted, partitions, ends)
        consumer.assign(partitions)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        open_partitions = [p for p in partitions if wanted.follow or starts[p] < ends[p]]
        consumer.pause(*(p for p in partitions if p not in open_partitions))
        left = wanted.limit
        while open_partitions and left != 0:
            page = await _page(consumer, wanted, open_partitions, ends)
            if left is not None:
                page = page[:left]
                left -= len(page)
            if page:
                yield page
            if not wanted.follow:
                for partition in list(open_partitions):
                    if await consumer.position(partition) >= ends[partition]:
                        open_partitions.remove(partition)
                        consumer.pause(partition)
    finally:
        await consumer.stop()


async def _partitions(consumer: Any, wanted: ReadRange) -> list[TopicPartition]:
    if wanted.topic not in await consumer.topics():
        raise CommandFailed(f"there is no topic {wanted.topic!r}; see `goqueue topics list`")
    indexes = sorted(consumer.partitions_for_topic(wanted.topic))
    if wanted.partition is None:
        return [TopicPartition(wanted.topic, index) for index in indexes]
    if wanted.partition not in indexes:
        raise CommandFailed(
            f"topic {wanted.topic!r} has no partition {wanted.partition}; "
            f"its partitions are 0 to {indexes[-1]}"
        )
    return [TopicPartition(wanted.topic, wanted.partition)]


async def _starts(
    consumer: Any,
    wanted: ReadRange,
    partitions: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if wanted.from_end:
        return ends
    if wanted.from_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, wanted.from_ms))
        return {p: ends[p] if found[p] is None else found[p].offset for p in partitions}
    beginnings: dict[TopicPartition, int] = await consumer.beginning_offsets(partitions)
    if wanted.from_offset is None:
        return beginnings
    offset = wanted.from_offset
    return {
        p: min(max(offset if offset >= 0 else ends[p] + offset, beginnings[p]), ends[p])
        for p in partitions
    }


async def _page(
    consumer: Any,
    wanted: ReadRange,
    partitions: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> list[Any]:
    found = await consumer.getmany(*partitions, timeout_ms=_WAIT_MS, max_records=_PAGE_RECORDS)
    return [
        message
        for partition, messages in found.items()
        for message in messages
        if (wanted.follow or message.offset < ends[partition])
        and (wanted.from_ms is None or message.timestamp >= wanted.from_ms)
        and (wanted.until_ms is None or message.timestamp < wanted.until_ms)
    ]
