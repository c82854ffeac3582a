"""A broker whose clock the test moves, and what its topics hold."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.delays import LIST_DEFAULT, DelayedId, DelayedPage, DelayStats
from goqueue.model.records import NewRecord, Record
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from goqueue.state.delays.records import TargetKey
from tests.callers import ANYONE
from tests.stored_records import read_records

TOPIC = "orders"
START_MS = 1_800_000_000_000


class Clock:
    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(folder: Path, clock: Clock, **settings: str) -> AsyncIterator[Node]:
    texts = {name.replace("__", "."): text for name, text in settings.items()}
    texts = {"data.dir": str(folder), **texts}
    broker = await Node.open(broker_config(texts), clock_ms=clock)
    try:
        yield broker
    finally:
        await broker.close()


async def with_topic(broker: Node, *, partitions: int = 1, **config: str) -> None:
    named = {name.replace("__", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name=TOPIC, partitions=partitions, config=named)
    )


async def open_shards(broker: Node, topic: str = TOPIC) -> list[DelayShard]:
    """Of all partitions of a topic, before the first message is delayed on its way there."""
    view = broker.topic(topic)
    keys = [TargetKey(view.id, part.index) for part in view.partitions]
    return [(await broker.delays.shards.of(key)).shard for key in keys]


def message(value: bytes | None, **fields: object) -> NewRecord:
    return NewRecord(value=value, **fields)  # type: ignore[arg-type]


async def schedule(
    broker: Node, topic: str, partition: int, records: Sequence[tuple[NewRecord, int]]
) -> list[DelayedId]:
    """Keep records for one partition until their times, also those that have passed."""
    writable = Access().writable_topic(ANYONE, topic)
    return await broker.delays.schedule(writable, partition, records)


async def cancel(broker: Node, topic: str, message_id: str) -> DelayedId:
    return await BrokerService(broker).delays.cancel(ANYONE, topic, message_id)


async def list_pending(
    broker: Node, topic: str, *, after: str | None = None, limit: int = LIST_DEFAULT
) -> DelayedPage:
    return await BrokerService(broker).delays.list_pending(ANYONE, topic, after=after, limit=limit)


def stats(broker: Node) -> DelayStats:
    return broker.delays.stats.of_broker(Access().describable_cluster(ANYONE))


async def stored(broker: Node, partition: int = 0, topic: str = TOPIC) -> list[Record]:
    records: list[Record] = []
    offset = 0
    while offset < broker.partition(topic, partition).high_watermark:
        page = await read_records(broker, topic, partition, offset, limit=10_000)
        records += page.records
        offset = page.next_offset
    return records


async def until_end(broker: Node, end_offset: int, partition: int = 0) -> None:
    """Wait until the partition has so many messages."""
    log = broker.partition(TOPIC, partition)
    await until(lambda: log.log_end_offset == end_offset)


async def values(broker: Node, partition: int = 0, topic: str = TOPIC) -> list[bytes | None]:
    return [record.value for record in await stored(broker, partition, topic)]


async def advance(broker: Node, clock: Clock, by_ms: int) -> None:
    """Let time pass, and what falls due arrive."""
    clock.now_ms += by_ms
    broker.delays.wake()
    await until(lambda: not any(_has_due(shard, clock) for shard in shards(broker)))


def shards(broker: Node) -> list[DelayShard]:
    return [running.shard for running in broker.delays.shards.running()]


def _has_due(shard: DelayShard, clock: Clock) -> bool:
    machine = shard.machine
    waiting = (machine.pending.get(number) for number in machine.pending)
    return any(
        entry.due_ms <= clock.now_ms - 20 and not machine.targets[entry.target].is_dropped
        for entry in waiting
        if entry is not None
    )
