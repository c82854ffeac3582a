"""Which messages to read, and reading them with aiokafka."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from goqueue.cli.failures import CommandFailed
from goqueue.cli.kafka_access import aiokafka_options
from goqueue.cli.security.connecting import kafka_security
from goqueue.client.admin import KafkaAdmin
from goqueue.client.topic_facts import PartitionFacts
from goqueue.model.layouts import Split, withheld

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


class _Span(NamedTuple):
    """What to read of one partition; the end is exclusive, and ignored while following."""

    start: int
    end: int


async def read_messages(bootstrap: str, wanted: ReadRange) -> AsyncIterator[list[Any]]:
    """Yield messages page by page; without `follow`, up to what was the end at the start.

    A partition comes after the one that it was split off, so that keys stay in order.
    """
    spans, splits = await _plan(bootstrap, wanted)
    if not wanted.follow:
        spans = {partition: span for partition, span in spans.items() if span.start < span.end}
    if not spans:
        return
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        **aiokafka_options(),
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    try:
        await consumer.start()
        consumer.assign(list(spans))
        for partition, span in spans.items():
            consumer.seek(partition, span.start)
        left = wanted.limit
        while spans and left != 0:
            held = await _held(consumer, spans, splits)
            page = await _page(consumer, wanted, spans, held)
            if left is not None:
                page = page[:left]
                left -= len(page)
            if page:
                yield page
            if not wanted.follow:
                await _drop_finished(consumer, spans)
    finally:
        await consumer.stop()


async def _plan(
    bootstrap: str, wanted: ReadRange
) -> tuple[dict[TopicPartition, _Span], tuple[Split, ...]]:
    async with KafkaAdmin(bootstrap, kafka_security()) as admin:
        (topic,) = await admin.describe_topics([wanted.topic], with_sizes=False)
        by_time = (
            await admin.offsets_at(wanted.topic, wanted.from_ms)
            if wanted.from_ms is not None
            else None
        )
        splits = await admin.splits(wanted.topic)
    chosen = [p for p in topic.partitions if wanted.partition in (None, p.partition)]
    if not chosen:
        raise CommandFailed(
            f"topic {topic.name!r} has no partition {wanted.partition}; "
            f"its partitions are 0 to {len(topic.partitions) - 1}"
        )
    spans = {TopicPartition(topic.name, p.partition): _span(p, wanted, by_time) for p in chosen}
    ends = {partition.partition: span.end for partition, span in spans.items()}
    return spans, tuple(_settled(split, ends) for split in splits)


def _settled(split: Split, ends: dict[int, int]) -> Split:
    """While producers are still told of a split, a parent ends where it ends now."""
    return replace(split, ends={**ends, **split.ends})


def _span(facts: PartitionFacts, wanted: ReadRange, by_time: dict[int, int] | None) -> _Span:
    start, end = facts.start_offset, facts.end_offset
    if start is None or end is None:
        raise CommandFailed(
            f"partition {facts.partition} is offline; choose another with --partition"
        )
    if wanted.from_end:
        return _Span(end, end)
    if by_time is not None:
        return _Span(by_time.get(facts.partition, end), end)
    if wanted.from_offset is None:
        return _Span(start, end)
    offset = wanted.from_offset if wanted.from_offset >= 0 else end + wanted.from_offset
    return _Span(min(max(offset, start), end), end)


async def _drop_finished(consumer: Any, spans: dict[TopicPartition, _Span]) -> None:
    for partition, span in list(spans.items()):
        if await consumer.position(partition) >= span.end:
            del spans[partition]
            consumer.pause(partition)


async def _held(
    consumer: Any, spans: dict[TopicPartition, _Span], splits: tuple[Split, ...]
) -> frozenset[int]:
    """Partitions that wait for those that they were split off."""
    if not splits:
        return frozenset()
    read = {partition.partition: await consumer.position(partition) for partition in spans}
    return withheld(splits, lambda parent, end: parent not in read or read[parent] >= end)


async def _page(
    consumer: Any,
    wanted: ReadRange,
    spans: dict[TopicPartition, _Span],
    held: Collection[int],
) -> list[Any]:
    ready = [partition for partition in spans if partition.partition not in held]
    found = await consumer.getmany(*ready, timeout_ms=_WAIT_MS, max_records=_PAGE_RECORDS)
    return [
        message
        for partition, messages in found.items()
        for message in messages
        if (wanted.follow or message.offset < spans[partition].end)
        and (wanted.from_ms is None or message.timestamp >= wanted.from_ms)
        and (wanted.until_ms is None or message.timestamp < wanted.until_ms)
    ]
