"""Delays that producers ask for by record headers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from goqueue.broker.delays.log import DelayLog
from goqueue.broker.node import Node
from goqueue.model.configs import ConfigResource, ConfigResourceKind
from goqueue.model.errors import InvalidRecord, NotLeader, OutOfOrderSequence
from goqueue.model.records import COMPRESSION_CODES, NewRecord, encode_records
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.delay_bench import (
    START_MS,
    TOPIC,
    Clock,
    advance,
    open_shards,
    running,
    shards,
    stats,
    stored,
    until,
    until_end,
    values,
    with_topic,
)

PRODUCER = 99


def delayed(value: bytes, delay_ms: int) -> NewRecord:
    return NewRecord(value=value, headers=(("goqueue-delay-ms", b"%d" % delay_ms), ("h", b"1")))


def batch(records: Sequence[NewRecord], *, sequence: int | None = None, codec: str = "") -> bytes:
    idempotent = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}
    return bytes(
        encode_records(
            records,
            now_ms=START_MS,
            compression=COMPRESSION_CODES.get(codec, 0),
            **(idempotent if sequence is not None else {}),  # type: ignore[arg-type]
        )
    )


async def produce(broker: Node, data: bytes) -> int:
    produced = await BrokerService(broker).log.produce(
        ANYONE, TOPIC, 0, data, acks=-1, timeout_ms=1_000
    )
    return produced.base_offset


MIXED = [
    NewRecord(value=b"first"),
    delayed(b"later", 2_000),
    delayed(b"zero", 0),
    delayed(b"soon", 1_000),
    NewRecord(value=b"last", headers=(("goqueue-deliver-at", b"%d" % (START_MS - 1)),)),
]


@pytest.mark.parametrize("sequence", [None, 0])
def test_a_batch_is_split(tmp_path: Path, sequence: int | None) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            assert await produce(broker, batch(MIXED, sequence=sequence)) == 0
            found = await stored(broker)
            # Offsets are those that the producer was told; the delayed ones leave holes.
            assert [(r.offset, r.value) for r in found] == [
                (0, b"first"),
                (2, b"zero"),
                (4, b"last"),
            ]
            assert [r.timestamp_ms for r in found] == [START_MS] * 3
            assert stats(broker).pending == 2
            await advance(broker, clock, 3_000)
            await until_end(broker, 7)
            soon, later = (await stored(broker))[3:]
            assert (soon.offset, soon.value) == (5, b"soon")
            assert (later.offset, later.value) == (6, b"later")
            # Whoever publishes it again, such as a redrive, must not delay it again.
            due = b"%d" % (START_MS + 1_000)
            assert soon.headers == (("goqueue-deliver-at", due), ("h", b"1"))

    asyncio.run(scenario())


def test_a_batch_of_delayed_records_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await produce(broker, batch([delayed(b"a", 500), delayed(b"b", 400)], sequence=0))
            assert await values(broker) == []
            assert await produce(broker, batch([NewRecord(value=b"c")], sequence=2)) == 2
            await advance(broker, clock, 1_000)
            await until_end(broker, 5)
            assert await values(broker) == [b"c", b"b", b"a"]

    asyncio.run(scenario())


def test_repeated_batches_are_scheduled_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            first = batch(MIXED, sequence=0)
            second = batch([delayed(b"x", 60_000)], sequence=5)
            for _ in range(3):
                assert await produce(broker, first) == 0
            for _ in range(3):
                assert await produce(broker, second) == 5
            assert await produce(broker, first) == 0
            assert stats(broker).pending == 3
            with pytest.raises(OutOfOrderSequence):
                await produce(broker, batch([delayed(b"gap", 60_000)], sequence=100))
            assert stats(broker).pending == 3
        async with running(tmp_path, clock) as broker:
            assert await produce(broker, second) == 5
            assert stats(broker).pending == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_where_the_topic_says_so(tmp_path: Path, codec: str) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await produce(broker, batch(MIXED, codec=codec))
            assert len(await values(broker)) == 5
            assert stats(broker).pending == 0
            await BrokerService(broker).administration.replace_config(
                ANYONE,
                ConfigResource(ConfigResourceKind.TOPIC, TOPIC),
                {"queue.headers.in.compressed": "true"},
            )
            await produce(broker, batch(MIXED, codec=codec))
            assert len(await values(broker)) == 8
            assert stats(broker).pending == 2
            await advance(broker, clock, 3_000)
            await until_end(broker, 12)
            assert (await values(broker))[5:] == [b"first", b"zero", b"last", b"soon", b"later"]

    asyncio.run(scenario())


def test_nonsense_is_refused_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            bad = NewRecord(value=b"v", headers=(("goqueue-delay-ms", b"soon"),))
            with pytest.raises(InvalidRecord, match="goqueue-delay-ms: 'soon'") as refused:
                await produce(broker, batch([NewRecord(value=b"v"), delayed(b"v", 5), bad]))
            assert refused.value.record_index == 2
            assert await values(broker) == []
            assert stats(broker).pending == 0

    asyncio.run(scenario())


def test_several_batches_in_one_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            data = batch([NewRecord(value=b"plain")]) + batch([delayed(b"d", 100)]) + batch(MIXED)
            await produce(broker, data)
            found = await stored(broker)
            assert [(r.offset, r.value) for r in found] == [
                (0, b"plain"),
                (2, b"first"),
                (4, b"zero"),
                (6, b"last"),
            ]
            assert stats(broker).pending == 3

    asyncio.run(scenario())


def test_a_priority_waits_with_its_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            headers = (("goqueue-delay-ms", b"1000"), ("goqueue-priority", b"critical"))
            await produce(broker, batch([NewRecord(value=b"v", headers=headers)]))
            assert broker.partition(TOPIC, 0).lanes.index is None
            await advance(broker, clock, 2_000)
            await until_end(broker, 2)
            assert broker.partition(TOPIC, 0).lanes.index is not None

    asyncio.run(scenario())


def test_the_delayed_part_is_safe_before_its_batch_and_nobody_overtakes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, Clock()) as broker:
            await with_topic(broker)
            await open_shards(broker)
            partition = broker.partition(TOPIC, 0)
            may_commit = asyncio.Event()
            waiting = 0

            def held(log: DelayLog) -> Callable[..., Awaitable[None]]:
                committed = log.committed

                async def wait(offset: int) -> None:
                    nonlocal waiting
                    waiting += 1
                    await may_commit.wait()
                    await committed(offset)

                return wait

            for shard in shards(broker):
                shard.log.committed = held(shard.log)  # type: ignore[assignment,method-assign]
            first = asyncio.create_task(produce(broker, batch(MIXED, sequence=0)))
            await until(lambda: waiting == 1)
            # Of the same producer, so that out of order it would be refused.
            second = asyncio.create_task(
                produce(broker, batch([NewRecord(value=b"next")], sequence=5))
            )
            gone = asyncio.create_task(
                produce(broker, batch([NewRecord(value=b"nobody waits for it")]))
            )
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            assert stats(broker).pending == 2
            assert (partition.log_end_offset, partition.turn.in_line) == (0, 2)
            may_commit.set()
            assert (await first, await second) == (0, 5)
            assert await values(broker) == [b"first", b"zero", b"last", b"next"]
            assert partition.turn.in_line == 0

    asyncio.run(scenario())


def test_a_batch_without_delays_waits_for_nothing_before_its_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, Clock()) as broker:
            await with_topic(broker)
            appending = broker.appending.append(
                broker.partition(TOPIC, 0),
                batch([NewRecord(value=b"v", headers=(("goqueue-priority", b"1"),))]),
            )
            # Its first step is its last: call order is log order.
            with pytest.raises(StopIteration):
                appending.send(None)

    asyncio.run(scenario())


def test_batches_behind_one_whose_delays_are_led_elsewhere_are_not_out_of_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that reads so sends under a new epoch, and what was kept would come twice."""

    async def scenario() -> None:
        async with running(tmp_path, Clock()) as broker:
            await with_topic(broker)
            service = BrokerService(broker)

            async def send(sequence: int) -> None:
                data = bytes(batch(MIXED, sequence=sequence))
                await service.log.produce(ANYONE, TOPIC, 0, data, acks=-1, timeout_ms=5_000)

            async def elsewhere(_: object) -> None:
                raise NotLeader("another broker leads the delays of orders-0")

            await send(0)
            count = len(MIXED)
            with monkeypatch.context() as patches:
                patches.setattr(broker.delays.shards, "of", elsewhere)
                for sequence in (count, 2 * count):
                    with pytest.raises(NotLeader):
                        await send(sequence)
            await send(count)
            await send(2 * count)

    asyncio.run(scenario())
