"""Which messages to read, and reading them with aiokafka."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from goqueue.cli.failures import CommandFailed
from goqueue.client.admin import KafkaAdmin
from goqueue.client.topic_facts import PartitionFacts

# Messages handed on at a time: large enough for speed, small enough to start printing soon.
_PAGE_RECORDS: Final = 5_000
# How long one wait for data takes; then the end is looked at again.
_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 4 * 1024 * 1024


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
    partitions = await _partitions(bootstrap, wanted)
    ends = {p: _offset(facts.end_offset, facts) for p, facts in partitions.items()}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    try:
        await consumer.start()
        starts = await _starts(consumer, wanted, partitions, ends)
        consumer.assign(list(partitions))
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


async def _partitions(bootstrap: str, wanted: ReadRange) -> dict[TopicPartition, PartitionFacts]:
    async with KafkaAdmin(bootstrap) as admin:
        (topic,) = await admin.describe_topics([wanted.topic], with_sizes=False)
    found = {TopicPartition(topic.name, facts.partition): facts for facts in topic.partitions}
    if wanted.partition is None:
        return found
    partition = TopicPartition(topic.name, wanted.partition)
    if partition not in found:
        raise CommandFailed(
            f"topic {topic.name!r} has no partition {wanted.partition}; "
            f"its partitions are 0 to {len(found) - 1}"
        )
    return {partition: found[partition]}


def _offset(offset: int | None, facts: PartitionFacts) -> int:
    if offset is None:
        raise CommandFailed(
            f"partition {facts.partition} is offline; choose another with --partition"
        )
    return offset


async def _starts(
    consumer: Any,
    wanted: ReadRange,
    partitions: dict[TopicPartition, PartitionFacts],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if wanted.from_end:
        return ends
    if wanted.from_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, wanted.from_ms))
        return {p: ends[p] if found[p] is None else found[p].offset for p in partitions}
    beginnings = {p: _offset(facts.start_offset, facts) for p, facts in partitions.items()}
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
