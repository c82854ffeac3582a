"""Compaction as a broker does it: in the background, with a real worker unless said otherwise."""

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions import compaction
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.broker.runtime.table import StateTable
from goqueue.broker.runtime.topic import STATE_TOPIC_CONFIG
from goqueue.model.batch import read_header
from goqueue.model.control import Marker, MarkerType
from goqueue.model.log import Isolation
from goqueue.model.records import NewRecord, Record, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.compaction.plan import Answer, CompactionPlan, Failed
from goqueue.storage.disk import Disk
from tests.callers import ANYONE
from tests.publishing import publish as store
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker

TOPIC = "prices"
OFTEN = {"log__cleaner__backoff__ms": "10"}
SELDOM = {"log__cleaner__backoff__ms": "1000000"}
SMALL = {"cleanup.policy": "compact", "segment.bytes": "1000", "delete.retention.ms": "0"}


def in_loop(test: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **fixtures: object) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


async def make_topic(broker: Node, **config: str) -> Partition:
    texts = SMALL | {name.replace("_", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name=TOPIC, partitions=1, config=texts)
    )
    return broker.partition(TOPIC, 0)


async def publish(broker: Node, *entries: tuple[str, str | None]) -> None:
    for key, value in entries:
        record = NewRecord(key=key.encode(), value=None if value is None else value.encode())
        await store(broker, TOPIC, [record])


async def read_all(broker: Node, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Record]:
    records: list[Record] = []
    offset = broker.partition(TOPIC, 0).log_start_offset
    while True:
        page = await read_records(broker, TOPIC, 0, offset, limit=1000, isolation=isolation)
        records += page.records
        if page.next_offset == offset:
            return records
        offset = page.next_offset


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


@in_loop
async def test_a_dirty_topic_is_compacted_in_the_background(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_broker(**OFTEN) as broker:
        partition = await make_topic(broker)
        for number in range(100):
            await publish(broker, (f"k{number % 5}", f"v{number}"))
        closed_to = partition.log._segments.active.base_offset
        await until(lambda: partition.log.compaction.first_dirty_offset >= closed_to)
        await until(lambda: partition.hosted.compacting is None)
        found = [(record.offset, record.value) for record in await read_all(broker)]
        assert len(found) < 25
        assert found[-5:] == [(n, f"v{n}".encode()) for n in range(95, 100)]
        assert broker.compactor.counts.runs >= 1
        assert broker.compactor.counts.failures == 0
        assert f"compacted {TOPIC}-0 up to offset" in caplog.text
        await publish(broker, ("k0", "later"))
    async with open_broker(**SELDOM) as broker:
        again = [(record.offset, record.value) for record in await read_all(broker)]
        assert again == [*found, (100, b"later")]


@in_loop
async def test_the_dirtiest_comes_first_and_others_are_left_alone(open_broker: OpenBroker) -> None:
    async with open_broker(**SELDOM) as broker:
        partition = await make_topic(broker)
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="plain", partitions=1))
        assert not await broker.compactor.compact_dirtiest()
        for number in range(60):
            await publish(broker, (f"k{number % 5}", f"v{number}"))
        assert await broker.compactor.compact_dirtiest()
        assert not await broker.compactor.compact_dirtiest()
        assert partition.log.compaction.first_dirty_offset > 40


@in_loop
async def test_the_maximum_lag_reaches_a_quiet_topic(open_broker: OpenBroker) -> None:
    async with open_broker(**OFTEN) as broker:
        partition = await make_topic(broker, max_compaction_lag_ms="50")
        await publish(broker, ("a", "1"), ("a", "2"))
        await until(lambda: partition.log.compaction.first_dirty_offset == 2)
        await until(lambda: partition.hosted.compacting is None)
        assert [record.offset for record in await read_all(broker)] == [1]


# --- producers and transactions -----------------------------------------------------------


def transact(partition: Partition, producer_id: int, sequence: int, key: bytes, kind: str) -> None:
    """One transaction with one record. The broker asks the coordinator first; tests need not."""
    batch = encode_records(
        [NewRecord(key=key, value=b"%s %d" % (kind.encode(), sequence))],
        now_ms=1_700_000_000_000,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    partition._write(batch, [(0, read_header(batch))], 1_700_000_000_000)
    marker = Marker(MarkerType[kind], coordinator_epoch=3)
    partition.append_marker(marker, producer_id=producer_id, producer_epoch=0, bumps_epoch=False)


def state_of(ledger: ProducerLedger) -> dict[int, object]:
    return {
        view.producer_id: (view, ledger.producers.kept_batches()[view.producer_id])
        for view in ledger.producers.describe()
    }


@in_loop
async def test_producers_are_known_after_their_records_are_gone(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    expected: dict[int, object] = {}
    async with open_broker(**SELDOM) as broker:
        partition = await make_topic(broker, min_cleanable_dirty_ratio="0")
        for number in range(40):
            kind = "ABORT" if number % 3 else "COMMIT"
            transact(partition, number % 4, number // 4, b"key %d" % (number % 2), kind)
        await publish(broker, *[(f"key {number % 2}", f"{number}" * 20) for number in range(20)])
        committed = await read_all(broker, Isolation.READ_COMMITTED)
        expected = state_of(partition.ledger)
        # The second run removes the markers of the first.
        for _ in range(2):
            assert await broker.compactor.compact_dirtiest()
            partition.log._segments.roll(0)
            await publish(broker, *[(f"key {number % 2}", "x" * 600) for number in range(4)])
        headers = list(partition.log.headers_from(0))
        assert sum(header.is_control for header in headers) == 4
        assert len(partition.ledger.aborted) <= 4
        last = {record.key: record.value for record in committed}
        now = {record.key: record.value for record in await read_all(broker)}
        assert last.keys() == now.keys()
    for path in (tmp_path / "data" / "logs" / f"{TOPIC}-0").glob("*.producers"):
        path.unlink()
    async with open_broker(**SELDOM) as broker:
        ledger = broker.partition(TOPIC, 0).ledger
        assert state_of(ledger) == expected
        assert ledger.producers.first_undecided_offset is None


@in_loop
async def test_an_open_transaction_stops_compaction(open_broker: OpenBroker) -> None:
    async with open_broker(**SELDOM) as broker:
        partition = await make_topic(broker)
        batch = encode_records(
            [NewRecord(key=b"a", value=b"open")],
            now_ms=0,
            is_transactional=True,
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
        )
        partition._write(batch, [(0, read_header(batch))], 0)
        await publish(broker, *[("a", "x" * 200) for _ in range(20)])
        assert not await broker.compactor.compact_dirtiest()
        marker = Marker(MarkerType.ABORT, coordinator_epoch=0)
        partition.append_marker(marker, producer_id=9, producer_epoch=0, bumps_epoch=False)
        assert await broker.compactor.compact_dirtiest()


# --- state --------------------------------------------------------------------------------


@in_loop
async def test_a_compacted_state_log_gives_the_same_table(open_broker: OpenBroker) -> None:
    rng = random.Random(7)
    async with open_broker(**SELDOM) as broker:
        state_config = {key.replace(".", "_"): text for key, text in STATE_TOPIC_CONFIG.items()}
        state_config |= {"segment_bytes": "2000", "delete_retention_ms": "0"}
        partition = await make_topic(broker, **state_config)
        log = partition.log
        for round_number in range(4):
            for number in range(80):
                value = None if rng.random() < 0.3 else b"%d.%d" % (round_number, number)
                record = NewRecord(key=b"k%d" % rng.randrange(20), value=value)
                partition.append_own(encode_records([record], now_ms=0))
            end = partition.log_end_offset
            before = list(StateTable.load(log, up_to=end).entries.items())
            assert await broker.compactor.compact_dirtiest()
            assert list(StateTable.load(log, up_to=end).entries.items()) == before
            if round_number == 1:
                # From here on tables start from a snapshot.
                StateTable.load(log, up_to=end).save(log)
        assert len(list(log.headers_from(0))) < 200


# --- trouble ------------------------------------------------------------------------------


class StuckWorker:
    """Works until it is killed."""

    started = threading.Event()
    killed = threading.Event()

    def __init__(self, plan: CompactionPlan) -> None:
        type(self).started = threading.Event()
        type(self).killed = threading.Event()
        (Path(plan.folder) / f"00000000000000000000.log.{plan.token}.cleaned").write_bytes(b"half")

    def run(self) -> Answer:
        self.started.set()
        assert self.killed.wait(20)
        return Failed(reason="killed")

    def kill(self) -> None:
        self.killed.set()


@contextmanager
def stuck_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "CompactionWorker", StuckWorker)
        yield


async def fill(broker: Node) -> Partition:
    partition = await make_topic(broker)
    await publish(broker, *[("a", "x" * 200) for _ in range(20)])
    return partition


@in_loop
async def test_a_topic_can_be_deleted_while_it_is_compacted(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with stuck_worker(monkeypatch):
        async with open_broker(**OFTEN) as broker:
            partition = await fill(broker)
            await until(
                lambda: partition.hosted.compacting is not None and StuckWorker.started.is_set()
            )
            await BrokerService(broker).topics.delete(ANYONE, TOPIC)
            await until(lambda: not list((tmp_path / "data" / "logs").iterdir()))
            assert StuckWorker.killed.is_set()
            assert broker.compactor.counts.failures == 0


@in_loop
async def test_a_broker_can_be_closed_while_it_compacts(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with stuck_worker(monkeypatch):
        async with open_broker(**OFTEN) as broker:
            partition = await fill(broker)
            await until(
                lambda: partition.hosted.compacting is not None and StuckWorker.started.is_set()
            )
        assert not list((tmp_path / "data" / "logs").rglob("*.cleaned"))
        assert (tmp_path / "data" / "clean-shutdown").exists()
    async with open_broker(**SELDOM) as broker:
        partition = broker.partition(TOPIC, 0)
        assert partition.log_end_offset == 20
        # What is clean is known before the new segments are swapped in, at the run's end.
        await until(
            lambda: (
                partition.hosted.compacting is None
                and partition.log.compaction.first_dirty_offset > 10
            )
        )
        assert len(await read_all(broker)) < 10


@in_loop
async def test_a_failed_run_changes_nothing_and_is_said_once(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_broker(**SELDOM) as broker:
        await fill(broker)

        def failing(*, is_lasting: bool) -> Callable[[object], Answer]:
            return lambda _: Failed(reason="no space left", is_lasting=is_lasting)

        worker = "goqueue.broker.partitions.compaction.CompactionWorker.run"
        with monkeypatch.context() as patch:
            patch.setattr(worker, failing(is_lasting=False))
            assert await broker.compactor.compact_dirtiest()
            assert not await broker.compactor.compact_dirtiest()
        assert caplog.text.count("compaction of prices-0 failed: no space left; trying again") == 1
        assert len(await read_all(broker)) == 20
        # Time passes.
        broker.compactor._not_before_ms.clear()
        with monkeypatch.context() as patch:
            patch.setattr(worker, failing(is_lasting=True))
            assert await broker.compactor.compact_dirtiest()
        assert "not tried again before a restart" in caplog.text
        assert not await broker.compactor.compact_dirtiest()
        assert broker.compactor.counts.failures == 2


@in_loop
async def test_a_swap_that_fails_is_completed_later(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker(**SELDOM) as broker:
        partition = await fill(broker)

        def broken(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(Disk, "rename", broken)
            patch.setattr("goqueue.storage.compaction.log_compaction.save_history", lambda *_: None)
            assert await broker.compactor.compact_dirtiest()
        assert partition.log.compaction.is_swapping
        assert len(await read_all(broker)) == 20
        assert partition.hosted.apply_retention() == 0
        broker.compactor._not_before_ms.clear()
        assert await broker.compactor.compact_dirtiest()
        assert not partition.log.compaction.is_swapping
        assert len(await read_all(broker)) < 10
