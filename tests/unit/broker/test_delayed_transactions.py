"""Delays within transactions: scheduled when they commit, all or none."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from goqueue.broker.delays import delivery as delay_delivery
from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import InvalidTransactionState, NotLeader
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import AddPartitions, EndTransaction, InitProducerId
from goqueue.service.broker_service import BrokerService
from goqueue.state.delays.machine import Origin
from tests.callers import ANYONE
from tests.unit.broker.delay_bench import (
    START_MS,
    TOPIC,
    Clock,
    advance,
    list_pending,
    open_shards,
    running,
    shards,
    stats,
    stored,
    until,
    with_topic,
)
from tests.unit.broker.test_delay_crashes import HOUR_MS, Crash, Witness, _is_settled
from tests.unit.broker.test_uncommitted import commits_held, delayed_log

ID = "copier"
DUE = b"%d" % (START_MS + 2_000)
DELAYED = frozenset({b"d0", b"d1", b"d2"})


class Producer(NamedTuple):
    id: int
    epoch: int


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 0)
    monkeypatch.setattr(delay_delivery, "SETTLE_MS", 1)


async def begin(broker: Node) -> Producer:
    transactions = BrokerService(broker).transactions
    init = InitProducerId(transactional_id=ID, timeout_ms=60_000)
    taken = await transactions.init_producer_id(ANYONE, init)
    assert taken.error is TransactionError.NONE
    producer = Producer(taken.producer_id, taken.producer_epoch)
    add = AddPartitions(
        transactional_id=ID,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        partitions=frozenset({topic_partition(TOPIC, 0)}),
    )
    answer = await transactions.add_partitions(ANYONE, add)
    assert set(answer.errors.values()) == {TransactionError.NONE}
    return producer


def encoded(producer: Producer, sequence: int, *values: bytes) -> bytes:
    """Values that begin with d are delayed."""
    headers = (("goqueue-deliver-at", DUE), ("h", b"1"))
    records = [
        NewRecord(value=value, key=b"k", headers=headers if value.startswith(b"d") else ())
        for value in values
    ]
    data = encode_records(
        records,
        now_ms=START_MS,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return bytes(data)


async def write(broker: Node, producer: Producer, sequence: int, *values: bytes) -> None:
    data = encoded(producer, sequence, *values)
    await broker.appending.append(broker.partition(TOPIC, 0), data)


def ending(producer: Producer, *, commit: bool, bumps_epoch: bool) -> EndTransaction:
    return EndTransaction(
        transactional_id=ID,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        commit=commit,
        bumps_epoch=bumps_epoch,
    )


async def end(broker: Node, producer: Producer, *, commit: bool) -> None:
    request = ending(producer, commit=commit, bumps_epoch=False)
    answer = await BrokerService(broker).transactions.end(ANYONE, request)
    assert answer.error is TransactionError.NONE
    assert await broker.transactions.settled(ID)


async def delayed_values(broker: Node) -> list[bytes]:
    values = [record.value or b"" for record in await stored(broker)]
    return sorted(value for value in values if value.startswith(b"d"))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_decides_about_its_delays(
    tmp_path: Path, commit: bool, restarts: bool
) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            producer = await begin(broker)
            await write(broker, producer, 0, b"now", b"d0")
            await write(broker, producer, 0, b"now", b"d0")  # sent again: known
            await write(broker, producer, 2, b"d1", b"d2")
            assert stats(broker).pending == 0
            if not restarts:
                await finish(broker, clock, producer)
        if restarts:
            async with running(tmp_path, clock) as broker:
                await finish(broker, clock, producer)

    async def finish(broker: Node, clock: Clock, producer: Producer) -> None:
        await advance(broker, clock, 1_000)
        await end(broker, producer, commit=commit)
        page = await list_pending(broker, TOPIC)
        assert len(page.messages) == stats(broker).pending == (3 if commit else 0)
        await advance(broker, clock, 5_000)
        await until(lambda: not stats(broker).pending)
        expected = sorted(DELAYED) if commit else []
        await until(lambda: not any(shard.machine.claimed for shard in shards(broker)))
        assert await delayed_values(broker) == expected
        found = [r for r in await stored(broker) if r.value == b"d1"]
        assert [(r.key, dict(r.headers)["h"]) for r in found] == [(b"k", b"1")] * commit
        assert not any(list(shard.machine.held) for shard in shards(broker))

    asyncio.run(scenario())


def test_what_is_due_when_it_is_sent_again_is_still_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            producer = await begin(broker)
            with monkeypatch.context() as patches:
                patches.setattr(Partition, "append", _lost)
                with pytest.raises(NotLeader):
                    await write(broker, producer, 0, b"now", b"d0")
            await advance(broker, clock, 3_000)
            await write(broker, producer, 0, b"now", b"d0")
            await end(broker, producer, commit=True)
            await until(lambda: _is_settled(broker, clock))
            assert await delayed_values(broker) == [b"d0"]

    def _lost(*_: object) -> None:
        raise NotLeader("another broker leads, and does not have it")

    asyncio.run(scenario())


def test_the_log_is_kept_for_what_is_held(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            producer = await begin(broker)
            await write(broker, producer, 0, b"d0", b"d1", b"d2")
            [shard] = shards(broker)
            live_bytes = shard.machine.live_bytes
            assert live_bytes > 0
            await shard.clean()
            shard.machine.next_number += 1  # something changed: the index is written
            await shard.update_index()
            await shard._trim()
        async with running(tmp_path, clock) as broker:
            [shard] = shards(broker)
            assert shard.machine.live_bytes == live_bytes
            await end(broker, producer, commit=True)
            await advance(broker, clock, 3_000)
            await until(lambda: not stats(broker).pending)
            assert await delayed_values(broker) == sorted(DELAYED)

    asyncio.run(scenario())


def test_a_deleted_topic_takes_what_is_held_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            producer = await begin(broker)
            await write(broker, producer, 0, b"d0")
            [shard] = shards(broker)
            assert shard.machine.live_bytes
            await BrokerService(broker).topics.delete(ANYONE, TOPIC)
            assert shards(broker) == []
            assert shard.log.partition.name.topic not in broker.image.topics
            # The transaction ends all the same.
            await end(broker, producer, commit=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("commit", [True, False])
def test_all_or_none_whatever_write_was_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    async def scenario() -> None:
        clock = Clock()
        witness = Witness(tmp_path / "data", tmp_path / "copies")
        async with running(tmp_path / "data", clock) as broker:
            await with_topic(broker)
            await open_shards(broker)
            producer = await begin(broker)
            with witness.watching(monkeypatch):
                await write(broker, producer, 0, b"now", b"d0")
                await write(broker, producer, 2, b"d1", b"d2")
                await end(broker, producer, commit=commit)
                if commit:
                    witness.acknowledged |= DELAYED
                await advance(broker, clock, 3_000)
                await until(lambda: not stats(broker).pending)
        assert len(witness.crashes) > 10
        outcomes = {await after(crash) for crash in witness.crashes}
        assert outcomes == ({0, len(DELAYED)} if commit else {0})

    async def after(crash: Crash) -> int:
        """Long after all is due, and after the transaction's time-out."""
        clock = Clock(START_MS + 2 * HOUR_MS)
        async with running(crash.folder, clock) as broker:
            await until(lambda: _is_ended(broker))
            await until(lambda: _is_settled(broker, clock))
            counts = Counter(await delayed_values(broker))
        assert set(counts) in (set(), DELAYED)
        assert all(count == 1 for count in counts.values())
        assert crash.acknowledged <= counts.keys()
        return len(counts)

    def _is_ended(broker: Node) -> bool:
        partition = broker.partition(TOPIC, 0)
        return partition.last_stable_offset == partition.high_watermark and not any(
            list(shard.machine.held) for shard in shards(broker)
        )

    asyncio.run(scenario())


def test_what_waits_when_its_transaction_ends_is_refused_whole(tmp_path: Path) -> None:
    """Its marker does not wait for it, and the next transaction must not take it along."""

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            service, place = BrokerService(broker), broker.partition(TOPIC, 0)
            init = InitProducerId(transactional_id=ID, timeout_ms=60_000)
            taken = await service.producers.init(ANYONE, init)
            producer = Producer(taken.producer_id, taken.producer_epoch)
            await open_shards(broker)
            with commits_held(delayed_log(broker)):
                late = asyncio.create_task(produce(service, producer, b"now", b"d0"))
                await until(lambda: bool(place.turn.in_line))
                request = ending(producer, commit=False, bumps_epoch=True)
                ends = asyncio.create_task(service.transactions.end(ANYONE, request))
                await until(lambda: place.log_end_offset == 1)
            aborted = await ends
            assert aborted.error is TransactionError.NONE
            assert await broker.transactions.settled(ID)
            with pytest.raises(InvalidTransactionState):
                await late
            following = Producer(aborted.producer_id, aborted.producer_epoch)
            await produce(service, following, b"second")
            committed = await service.transactions.end(
                ANYONE, ending(following, commit=True, bumps_epoch=True)
            )
            assert committed.error is TransactionError.NONE
            assert await broker.transactions.settled(ID)
            await advance(broker, clock, 5_000)
            await until(lambda: _is_settled(broker, clock))
            assert [record.value for record in await stored(broker)] == [b"second"]
            assert place.ledger.producers.open_transaction_count == 0
            assert not any(list(shard.machine.held) for shard in shards(broker))

    async def produce(service: BrokerService, producer: Producer, *values: bytes) -> None:
        await service.log.produce(
            ANYONE,
            TOPIC,
            0,
            encoded(producer, 0, *values),
            acks=-1,
            timeout_ms=5_000,
            transactional_id=ID,
            bumps_epoch=True,
        )

    asyncio.run(scenario())


def test_a_marker_that_is_told_again_decides_nothing_about_the_next_transaction(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            producer = await begin(broker)
            await write(broker, producer, 0, b"d0")
            following = Producer(producer.id, producer.epoch + 1)
            [shard] = shards(broker)
            key = shard.machine.targets[0].key
            origin = Origin(key, following.id, following.epoch, 0)
            shard.hold(origin, [(NewRecord(value=b"d1"), START_MS + 2_000)], 0)
            place = topic_partition(TOPIC, 0)
            for _ in range(2):
                await broker.delays.end_transaction(place, producer.id, producer.epoch, commit=True)
            assert [part.producer_epoch for part in shard.machine.held.of(key, producer.id)] == [
                following.epoch
            ]
            assert stats(broker).pending == 1
            # What is left of an earlier one was never acknowledged.
            await broker.delays.end_transaction(
                place, producer.id, following.epoch + 1, commit=True
            )
            assert stats(broker).pending == 1
            assert not list(shard.machine.held)

    asyncio.run(scenario())
