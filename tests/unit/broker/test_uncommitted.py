"""What is not committed may be cut off by another leader: nothing is decided on its word."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue.broker.delays import delivery as delay_delivery
from goqueue.broker.delays import log as delay_log
from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.names import topic_partition
from goqueue.model.queues.messages import AckAction
from goqueue.model.records import NewRecord, encode_records
from goqueue.state.producers.partition import PartitionProducers
from tests.callers import ANYONE
from tests.unit.broker import delay_bench
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_queues import acknowledge, make_topic, publish, queues, receive, values

# Long enough for some rounds of whoever would go on too early.
A_WHILE_S = 0.1


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 0)
    monkeypatch.setattr(delay_delivery, "SETTLE_MS", 1)


@contextmanager
def commits_held(partition: Partition) -> Iterator[None]:
    """As if other replicas had nothing of what is appended meanwhile."""

    def advance(appended_bytes: int) -> None:
        del appended_bytes

    as_ever = partition._advance
    partition._advance = advance  # type: ignore[method-assign]
    try:
        yield
    finally:
        partition._advance = as_ever  # type: ignore[method-assign]
        partition._advance(0)


async def schedule_one(broker: Node, clock: delay_bench.Clock) -> None:
    """Due in a tenth of a second."""
    messages = [(delay_bench.message(b"a"), clock.now_ms + 100)]
    await delay_bench.schedule(broker, delay_bench.TOPIC, 0, messages)


def delayed_log(broker: Node) -> Partition:
    return broker.partition(companion_of(DELAYED, broker.topic(delay_bench.TOPIC).id), 0)


@pytest.mark.parametrize("policy", ["interval", "always", "never"])
def test_a_delivery_is_settled_when_it_is_committed(tmp_path: Path, policy: str) -> None:
    """Else a message that another leader of its partition does not have would be lost."""

    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker, fsync__policy=policy)
            await schedule_one(broker, clock)
            [shard] = delay_bench.shards(broker)
            target = broker.partition(delay_bench.TOPIC, 0)
            with commits_held(target):
                clock.now_ms += 200
                broker.delays.wake()
                await delay_bench.until(lambda: target.log_end_offset == 1)
                await asyncio.to_thread(target.log.flush)
                for _ in range(20):
                    broker.delays.wake()
                    await asyncio.sleep(A_WHILE_S / 20)
                assert list(shard.machine.claimed)
                assert target.high_watermark == 0
            broker.delays.wake()
            await delay_bench.until(lambda: not shard.machine.claimed)

    asyncio.run(scenario())


def test_a_new_leader_delivers_nothing_before_what_it_found_is_committed(tmp_path: Path) -> None:
    """Another leader may not know of the message, or of its cancellation."""

    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker)
            await schedule_one(broker, clock)
            log, target = delayed_log(broker), broker.partition(delay_bench.TOPIC, 0)
            log._high_watermark = log.log_end_offset - 1
            broker.delays.shards.led(topic_partition(*log.name))
            for _ in range(20):
                clock.now_ms += 20
                broker.delays.wake()
                await asyncio.sleep(A_WHILE_S / 20)
            assert delay_bench.shards(broker) == []
            assert target.log_end_offset == 0
            log._advance(0)
            await delay_bench.until(lambda: bool(delay_bench.shards(broker)))
            await delay_bench.advance(broker, clock, 100)
            await delay_bench.until_end(broker, 1)

    asyncio.run(scenario())


def test_nothing_is_delivered_on_a_claim_that_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: another leader would give its sequence to other messages."""
    monkeypatch.setattr(delay_log, "COMMIT_TIMEOUT_MS", 20)
    monkeypatch.setattr(delay_delivery, "RETRY_MS", 1)

    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker)
            await schedule_one(broker, clock)
            [shard] = delay_bench.shards(broker)
            log, target = delayed_log(broker), broker.partition(delay_bench.TOPIC, 0)
            with commits_held(log):
                clock.now_ms += 200
                broker.delays.wake()
                await delay_bench.until(lambda: bool(shard.machine.claimed))
                await asyncio.sleep(2 * A_WHILE_S)
                assert target.log_end_offset == 0
            await delay_bench.until_end(broker, 1)
            await delay_bench.until(lambda: not shard.machine.claimed)

    asyncio.run(scenario())


def test_a_delivery_is_repeated_that_another_leader_of_its_topic_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 60_000)

    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker, fsync__policy="never")
            await schedule_one(broker, clock)
            [shard] = delay_bench.shards(broker)
            target = broker.partition(delay_bench.TOPIC, 0)
            with commits_held(target):
                clock.now_ms += 200
                broker.delays.wake()
                await delay_bench.until(lambda: target.log_end_offset == 1)
                # Another one led meanwhile: something else stands in its place.
                target.log.truncate_to(0)
                target.ledger.producers = PartitionProducers()
                target.leader_epoch += 2
                target.append_own(encode_records([NewRecord(value=b"b")], now_ms=clock.now_ms))
            await delay_bench.until_end(broker, 2)
            await delay_bench.until(lambda: not shard.machine.claimed)
            assert await delay_bench.values(broker) == [b"b", b"a"]

    asyncio.run(scenario())


def test_the_delayed_part_is_committed_before_its_batch_is_appended(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = delay_bench.Clock()
        async with delay_bench.running(tmp_path, clock) as broker:
            await delay_bench.with_topic(broker)
            await delay_bench.open_shards(broker)
            log, target = delayed_log(broker), broker.partition(delay_bench.TOPIC, 0)
            later = (("goqueue-delay-ms", b"1000"),)
            records = [NewRecord(value=b"now"), NewRecord(value=b"later", headers=later)]
            with commits_held(log):
                end = log.log_end_offset
                batch = bytes(encode_records(records, now_ms=clock.now_ms))
                producing = asyncio.create_task(broker.appending.append(target, batch))
                await delay_bench.until(lambda: log.log_end_offset > end)
                await asyncio.sleep(A_WHILE_S)
                assert target.log_end_offset == 0
            await producing
            assert target.log_end_offset == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("in_order", [False, True])
def test_a_queue_gives_out_nothing_that_is_not_committed(
    open_broker: OpenBroker, in_order: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"a")
            partition = broker.partition("t", 0)
            with commits_held(partition):
                waiting = asyncio.create_task(publish(broker, b"b"))
                await delay_bench.until(lambda: partition.log_end_offset == 2)
                [first] = await receive(broker, in_order=in_order)
                assert first.record.value == b"a"
                await acknowledge(broker, first, AckAction.ACCEPT)
                assert await receive(broker, in_order=in_order) == []
                [described] = await queues(broker).describe(ANYONE, "g", "t")
                assert (described.floor, described.ready) == (1, 0)
            await waiting
            assert values(await receive(broker, in_order=in_order)) == [b"b"]

    asyncio.run(scenario())
