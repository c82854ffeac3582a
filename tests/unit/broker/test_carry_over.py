"""A data directory of a release that kept the queues and delays of all topics together.

`tests/upgrades/earlier.tar.xz` is one, of a broker that was killed (`make_earlier_data.py`). The
first start carries everything over; here it is also cut short after each of its steps.
"""

import asyncio
import json
import logging
import random
import shutil
import tarfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.calls.calls import Untouched
from goqueue.broker.delays import delivery as delay_delivery
from goqueue.broker.delays.carrying import DelayCarrier
from goqueue.broker.delays.index import DelayIndex
from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.carrying import StateCarrier
from goqueue.broker.runtime import carry_over
from goqueue.broker.runtime.carry_over import Carried
from goqueue.metadata.local import LocalStore
from goqueue.model.companions import DELAYED, KINDS, QUEUE_STATE, companion_of
from goqueue.model.errors import (
    PartitionOffline,
    StateLoading,
    TooLateToCancel,
    UnknownDelayedMessage,
)
from goqueue.model.names import topic_partition
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import EndTransaction
from goqueue.service.broker_service import BrokerService
from goqueue.storage.log import PartitionLog
from goqueue.storage.log_extent import LogExtent
from tests.callers import ANYONE, SQS_READER
from tests.live_folders import copy_live
from tests.stored_records import read_records
from tests.unit.broker.delay_bench import (
    Clock,
    cancel,
    list_pending,
    message,
    running,
    schedule,
    shards,
    stats,
    until,
    values,
)
from tests.unit.broker.test_delay_crashes import _is_settled
from tests.upgrades.make_earlier_data import ARCHIVE, DAY_MS, HOUR_MS, JOBS, ORDERS, START_MS, STEPS

Expected = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 0)
    monkeypatch.setattr(delay_delivery, "SETTLE_MS", 1)


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    """The folder is unpacked as `data`."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    found: Expected = json.loads((tmp_path / "expected.json").read_text())
    return found


def on_restart() -> Clock:
    return Clock(START_MS + 300)


# --- looking at it ------------------------------------------------------------------------


async def listed(broker: Node) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    after: str | None = None
    while True:
        page = await list_pending(broker, ORDERS, after=after, limit=50)
        for each in page.messages:
            assert str(each.id) not in found
            found[str(each.id)] = ((each.record.value or b"").decode(), each.partition)
        after = page.next_after
        if after is None:
            return found


async def drained(broker: Node, group: str, topic: str, *, in_order: bool = False) -> list[str]:
    """Everything that a group has not acknowledged yet."""
    queues = BrokerService(broker).queues
    found: list[str] = []
    while True:
        request = Receive(max_messages=10, start="earliest", in_order=in_order)
        taken = await queues.receive(SQS_READER, group, topic, request)
        if not taken:
            return found
        found += [(each.record.value or b"").decode() for each in taken]
        wanted = [Settlement(each.receipt, AckAction.ACCEPT, None) for each in taken]
        await queues.settle(SQS_READER, group, wanted)


async def check_queues(broker: Node, expected: Expected) -> None:
    assert sorted(await drained(broker, "workers", JOBS)) == expected["workers"]
    assert sorted(await drained(broker, "others", JOBS)) == expected["others"]
    steps = await drained(broker, SQS_GROUP, STEPS, in_order=True)
    for group in "abc":
        in_group = [value for value in expected["steps"] if value.startswith(group)]
        assert [value for value in steps if value.startswith(group)] == in_group
    letters = [
        (record.value or b"").decode()
        for index in range(len(broker.topic("jobs.dlq").partitions))
        for record in (await read_records(broker, "jobs.dlq", index, 0, limit=100)).records
    ]
    assert sorted(letters) == expected["dead"]


async def check_delays(broker: Node, clock: Clock, expected: Expected) -> None:
    """Ends with everything delivered, once."""
    halves = {"half-0", "half-1", "half-2"}
    waiting = {name: tuple(place) for name, place in expected["waiting"].items()}
    found = await listed(broker)
    assert {name: place for name, place in found.items() if place[0] not in halves} == waiting
    assert {place for place in found.values() if place[0] in halves} == {(h, 0) for h in halves}

    # Old ids name the same messages as before.
    partitions = [0, 1, 2]
    taken_back = [
        next(name for name, place in waiting.items() if place[1] == index) for index in partitions
    ]
    for name in taken_back:
        assert str(await cancel(broker, ORDERS, name)) == name
    for name in (taken_back[0], expected["cancelled"][0]):
        with pytest.raises(UnknownDelayedMessage):
            await cancel(broker, ORDERS, name)
    gone = {waiting[name][0] for name in taken_back}

    # The producer does not know that half of its batch is safe, and sends it again.
    pending = stats(broker).pending
    batch = bytes.fromhex(expected["batch"])
    for _ in range(2):
        await BrokerService(broker).log.produce(ANYONE, ORDERS, 0, batch, acks=-1, timeout_ms=1_000)
    assert stats(broker).pending == pending

    for transactional_id in ("commits", "aborts"):
        await end_transaction(broker, transactional_id, expected[transactional_id])
    committed = [f"commits-{number}" for number in range(4)]
    assert stats(broker).pending == pending + len(committed)

    [newest] = await schedule(broker, ORDERS, 1, [(message(b"new"), START_MS + HOUR_MS)])
    [unwanted] = await schedule(broker, ORDERS, 1, [(message(b"no"), START_MS + HOUR_MS)])
    await cancel(broker, ORDERS, str(unwanted))
    assert (await listed(broker))[str(newest)] == ("new", 1)

    clock.now_ms += 2 * DAY_MS
    for each in shards(broker):
        await each.upkeep()
    await until(lambda: _is_settled(broker, clock))
    with pytest.raises(TooLateToCancel):
        await cancel(broker, ORDERS, str(newest))
    due = [value for each in expected["due"].values() for value in each]
    kept = [value for value, _ in waiting.values() if value not in gone]
    delivered = [
        (value or b"").decode() for index in partitions for value in await values(broker, index)
    ]
    assert sorted(delivered) == sorted([*due, *kept, *committed, *halves, "new"])


async def end_transaction(broker: Node, transactional_id: str, producer: list[int]) -> None:
    request = EndTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        commit=transactional_id == "commits",
        bumps_epoch=False,
    )
    answer = await BrokerService(broker).transactions.end(ANYONE, request)
    assert answer.error is TransactionError.NONE
    assert await broker.transactions.settled(transactional_id)


async def check(folder: Path, expected: Expected) -> None:
    clock = on_restart()
    async with running(folder, clock) as broker:
        assert not {*KINDS} & broker.image.topics.keys()
        for index, due in expected["due"].items():
            partition = broker.partition(ORDERS, int(index))
            await until(lambda end=partition: end.log_end_offset > 0)  # type: ignore[misc]
            assert [v.decode() for v in await values(broker, int(index)) if v] == due
        await check_queues(broker, expected)
        await check_delays(broker, clock, expected)
    async with running(folder, clock) as broker:
        assert await drained(broker, "workers", JOBS) == []
        assert await listed(broker) == {}


# --- whole --------------------------------------------------------------------------------


def test_everything_is_carried_over(
    tmp_path: Path, expected: Expected, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goqueue.broker.runtime.carry_over")
    asyncio.run(check(tmp_path / "data", expected))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert told[0].startswith("carrying over __delayed of an earlier release, 4 shards")
    messages = 324 + 3 + sum(map(len, expected["due"].values()))
    assert f"{messages} delayed messages" in told[1]
    assert "9 of them on their way already" in told[1]
    assert "4 parts of open transactions" in told[1]
    assert "1 delayed messages of topics that are gone, dropped" in told[1]
    assert "7 queues, 1 queues of topics that are gone, dropped" in told[3]


def test_what_is_carried_over_stays_after_restarts(tmp_path: Path, expected: Expected) -> None:
    async def scenario() -> None:
        for _ in range(2):
            async with running(tmp_path / "data", on_restart()) as broker:
                owner = broker.topic(ORDERS).id
                names = {companion_of(kind, owner) for kind in (DELAYED,)}
                assert names <= broker.image.topics.keys()
                # Old folders go as those of other deleted topics.
                await until(lambda: not list((tmp_path / "data" / "logs").glob("*.deleted")))
        folders = {path.name for path in (tmp_path / "data" / "logs").iterdir()}
        assert not any(name.startswith(f"{kind}-") for kind in KINDS for name in folders)
        await check(tmp_path / "data", expected)

    asyncio.run(scenario())


# --- cut short ----------------------------------------------------------------------------


class Steps:
    """Copies the data directory after every write, as a kill would leave it there; or after one."""

    def __init__(self, folder: Path, copies: Path, only: int | None = None) -> None:
        self._folder = folder
        self._copies = copies
        self._only = only
        self.count = 0
        self.folders: list[Path] = []
        # Threads write, too.
        self._one_at_a_time = threading.Lock()

    def copy(self, torn: Path | None = None) -> None:
        with self._one_at_a_time:
            if self._only in (None, self.count):
                self._copy(torn)
            self.count += 1

    def _copy(self, torn: Path | None) -> None:
        copy = self._copies / str(len(self.folders))
        copy_live(self._folder, copy, torn)
        self.folders.append(copy)

    @contextmanager
    def watching(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        append = PartitionLog.append

        def watched_append(log: PartitionLog, *args: Any, **options: Any) -> None:
            append(log, *args, **options)
            self.copy()
            self.copy(torn=max(log.path.glob("*.log")))

        def followed_by_copy(done: Callable[..., Any]) -> Callable[..., Any]:
            def watched(*args: Any, **options: Any) -> Any:
                found = done(*args, **options)
                self.copy()
                return found

            return watched

        with monkeypatch.context() as patches:
            patches.setattr(PartitionLog, "append", watched_append)
            for owner, name in (
                (DelayIndex, "commit"),
                (LogExtent, "save_start"),
                (LocalStore, "_commit"),
            ):
                patches.setattr(owner, name, followed_by_copy(getattr(owner, name)))
            yield


def test_a_kill_after_any_step(
    tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        steps = Steps(tmp_path / "data", tmp_path / "copies")
        with steps.watching(monkeypatch):
            async with running(tmp_path / "data", on_restart()) as broker:
                assert not {*KINDS} & broker.image.topics.keys()
        assert len(steps.folders) > 60
        for folder in steps.folders:
            await check(folder, expected)
            shutil.rmtree(folder)

    asyncio.run(scenario())


def test_kills_of_one_try_after_the_other(
    tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a try that was cut short is gone on with, and cut short again."""
    chance = random.Random(14)

    async def scenario() -> None:
        for story in range(10):
            folder = tmp_path / "data"
            for attempt in range(3):
                working = tmp_path / f"{story}-{attempt}"
                shutil.copytree(folder, working)
                steps = Steps(working, tmp_path / f"{story}-{attempt}-cut", chance.randrange(30))
                with steps.watching(monkeypatch):
                    async with running(working, on_restart()):
                        pass
                if steps.folders:
                    [folder] = steps.folders
            await check(folder, expected)

    asyncio.run(scenario())


# --- not at once --------------------------------------------------------------------------


def test_what_cannot_be_carried_over_yet_is_not_served(
    tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the disk is full: everything else is served, and it goes on by itself."""
    is_full = True

    def failing(carry: Callable[..., Awaitable[Carried]]) -> Callable[..., Awaitable[Carried]]:
        async def tried(carrier: object, shard: Partition) -> Carried:
            if is_full:
                raise PartitionOffline("no space left on device")
            return await carry(carrier, shard)

        return tried

    monkeypatch.setattr(carry_over, "RETRY_MS", 10)
    for carrier in (StateCarrier, DelayCarrier):
        monkeypatch.setattr(carrier, "carry", failing(carrier.carry))

    async def scenario() -> None:
        nonlocal is_full
        clock = on_restart()
        async with running(tmp_path / "data", clock) as broker:
            assert {*KINDS} <= broker.image.topics.keys()
            service = BrokerService(broker)
            monkeypatch.setattr(carry_over, "LOAD_PATIENCE_S", 0.01)
            request = Receive(max_messages=1, start="earliest")
            with pytest.raises(StateLoading):
                await service.queues.receive(ANYONE, "workers", JOBS, request)
            with pytest.raises(Untouched):
                await schedule(broker, ORDERS, 0, [(message(b"x"), START_MS + HOUR_MS)])
            with pytest.raises(StateLoading):
                await list_pending(broker, ORDERS)
            with pytest.raises(StateLoading):
                await broker.delays.end_transaction(
                    topic_partition(ORDERS, 1), expected["commits"][0], 0, commit=False
                )
            assert broker.partition(ORDERS, 2).log_end_offset == 0
            # Nothing of it was for this topic.
            await service.topics.create(ANYONE, NewTopic(name="other", partitions=1))
            await service.publishing.publish(ANYONE, "other", [NewRecord(value=b"new")])
            is_full = False
            monkeypatch.setattr(carry_over, "LOAD_PATIENCE_S", 10)
            await until(lambda: not {*KINDS} & broker.image.topics.keys())
            assert await drained(broker, "workers", "other") == ["new"]
        await check(tmp_path / "data", expected)

    asyncio.run(scenario())


def test_a_damaged_shard_does_not_hold_up_the_others(tmp_path: Path, expected: Expected) -> None:
    """Its topic stays, with what is in it, until somebody has mended or deleted it."""
    numbers = {name.split("-")[1] for name in expected["waiting"]}
    broken = int(min(numbers))
    folder = tmp_path / "data" / "logs" / f"{DELAYED}-{broken}"
    [log] = folder.glob("*.log")
    content = bytearray(log.read_bytes())
    content[90] ^= 4
    log.write_bytes(content)
    for path in folder.iterdir():
        if path.suffix not in (".log", ".json"):
            path.unlink()

    async def scenario() -> None:
        for _ in range(2):
            async with running(tmp_path / "data", on_restart()) as broker:
                assert DELAYED in broker.image.topics
                assert QUEUE_STATE not in broker.image.topics
                assert topic_partition(DELAYED, broken) in broker.hosted.offline
                page = await list_pending(broker, ORDERS, limit=1000)
                partitions = {
                    place[1]
                    for name, place in expected["waiting"].items()
                    if int(name.split("-")[1]) != broken
                }
                assert {each.partition for each in page.messages} == partitions
                assert set(page.missing) == {0, 1, 2} - partitions

    asyncio.run(scenario())
