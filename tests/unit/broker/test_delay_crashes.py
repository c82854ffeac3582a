"""A crash after any write, whole or torn: what was acknowledged arrives, each once, in order.

After every append to any log, and after every change of an index, the data directory is copied as
a killed process would leave it; a second copy lacks the last bytes of that append, as a write that
the kill cut short. A broker is then started on each copy.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue.broker.delays import delivery as delay_delivery
from goqueue.broker.delays import indexed as indexed_delays
from goqueue.broker.delays.index import DelayIndex
from goqueue.broker.node import Node
from goqueue.model.batch import Buffer
from goqueue.model.records import NewRecord, encode_records
from goqueue.service.broker_service import BrokerService
from goqueue.storage.log import PartitionLog
from tests.callers import ANYONE
from tests.live_folders import copy_live
from tests.unit.broker.delay_bench import (
    START_MS,
    TOPIC,
    Clock,
    cancel,
    message,
    open_shards,
    running,
    schedule,
    shards,
    stats,
    stored,
    until,
    with_topic,
)

HOUR_MS = 3_600_000
PRODUCER = 4_711


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many brokers would else wait for a flush that comes after a second or two."""
    monkeypatch.setattr(delay_delivery, "FLUSH_PATIENCE_MS", 0)
    monkeypatch.setattr(delay_delivery, "SETTLE_MS", 1)


@pytest.fixture(autouse=True, params=[1, 1_000], ids=["with an index", "without"])
def _indexes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has either of them: one that goes on from an index, or the log alone."""
    monkeypatch.setattr(indexed_delays, "INDEX_WORTH_RECORDS", request.param)


class Crash:
    """A copy of the data directory, and what clients knew at that time."""

    def __init__(
        self,
        folder: Path,
        acknowledged: set[bytes],
        cancelled: set[bytes],
        *,
        is_torn: bool = False,
    ) -> None:
        self.folder = folder
        self.is_torn = is_torn
        self.acknowledged = set(acknowledged)
        self.cancelled = set(cancelled)


class Witness:
    def __init__(self, folder: Path, copies: Path) -> None:
        self.crashes: list[Crash] = []
        self.acknowledged: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self._folder = folder
        self._copies = copies

    def copy(self, torn: Path | None = None) -> None:
        copy = self._copies / str(len(self.crashes))
        copy_live(self._folder, copy, torn)
        is_torn = torn is not None
        self.crashes.append(Crash(copy, self.acknowledged, self.cancelled, is_torn=is_torn))

    @contextmanager
    def watching(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        append, commit = PartitionLog.append, DelayIndex.commit

        def watched_append(log: PartitionLog, data: Buffer, *args: object, **opts: object) -> None:
            append(log, data, *args, **opts)  # type: ignore[arg-type]
            self.copy()
            self.copy(torn=max(log.path.glob("*.log")))

        def watched_commit(index: DelayIndex, *args: object) -> None:
            commit(index, *args)  # type: ignore[arg-type]
            self.copy()

        with monkeypatch.context() as patches:
            patches.setattr(PartitionLog, "append", watched_append)
            patches.setattr(DelayIndex, "commit", watched_commit)
            yield


async def check(crash: Crash, everything: dict[bytes, int], settings: dict[str, str]) -> None:
    """Start on the copy, long after all is due, and look at the topic."""
    clock = Clock(START_MS + 2 * HOUR_MS)
    async with running(crash.folder, clock, **settings) as broker:
        await until(lambda: _is_settled(broker, clock))
        found = [record.value for record in await stored(broker)]
    counts = Counter(found)
    assert not [value for value, count in counts.items() if count > 1]
    assert crash.acknowledged - crash.cancelled <= set(found)
    assert not crash.cancelled & set(found)
    assert set(found) <= everything.keys() | {b"now"}


def _is_settled(broker: Node, clock: Clock) -> bool:
    clock.now_ms += 10
    broker.delays.wake()
    return not stats(broker).pending and not any(shard.machine.claimed for shard in shards(broker))


Scenario = Callable[[Node, Clock, Witness, dict[bytes, int]], object]


async def schedule_all(
    broker: Node, witness: Witness, everything: dict[bytes, int], prefix: bytes, delays: list[int]
) -> list[str]:
    records = [(message(b"%s%d" % (prefix, at)), START_MS + ms) for at, ms in enumerate(delays)]
    everything |= {record.value or b"": due_ms for record, due_ms in records}
    ids = await schedule(broker, TOPIC, 0, records)
    witness.acknowledged |= {record.value or b"" for record, _ in records}
    return [str(each) for each in ids]


async def deliver(broker: Node, clock: Clock, at_ms: int) -> None:
    clock.now_ms = START_MS + at_ms
    for _ in range(30):
        clock.now_ms += 1
        broker.delays.wake()
        await asyncio.sleep(0.001)


async def live(broker: Node, clock: Clock, witness: Witness, all_: dict[bytes, int]) -> None:
    ids = await schedule_all(broker, witness, all_, b"a", [100, 300, 200, 400_000])
    await schedule_all(broker, witness, all_, b"b", [150] * 20)
    witness.acknowledged.discard(b"a3")
    await cancel(broker, TOPIC, ids[3])
    witness.cancelled.add(b"a3")
    await deliver(broker, clock, 160)
    for shard in shards(broker):
        await shard.update_index()
    await schedule_all(broker, witness, all_, b"c", [250, 220])
    await deliver(broker, clock, 310)
    batch = encode_records(
        [
            NewRecord(value=b"now"),
            NewRecord(value=b"d0", headers=(("goqueue-deliver-at", b"%d" % (START_MS + 500)),)),
            NewRecord(value=b"d1", headers=(("goqueue-deliver-at", b"%d" % (START_MS + 450)),)),
        ],
        now_ms=clock.now_ms,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=0,
    )
    all_ |= {b"d0": START_MS + 500, b"d1": START_MS + 450}
    await BrokerService(broker).log.produce(
        ANYONE, TOPIC, 0, bytes(batch), acks=-1, timeout_ms=1_000
    )
    witness.acknowledged |= {b"d0", b"d1", b"now"}
    await deliver(broker, clock, 600)
    await asyncio.to_thread(broker.partition(TOPIC, 0).log.flush)
    await until(lambda: _is_settled(broker, clock))
    for shard in shards(broker):
        await shard.clean()


@pytest.mark.parametrize("policy", ["interval", "always", "never"])
def test_exactly_once_whatever_write_was_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    settings = {"topic__fsync__policy": policy}

    async def scenario() -> None:
        clock = Clock()
        everything: dict[bytes, int] = {}
        data = tmp_path / "data"
        witness = Witness(data, tmp_path / "copies")
        async with running(data, clock, **settings) as broker:
            await with_topic(broker)
            await open_shards(broker)
            with witness.watching(monkeypatch):
                await live(broker, clock, witness, everything)
        assert len(witness.crashes) > 25
        for crash in witness.crashes:
            await check(crash, everything, settings)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("later_ms", "is_indexed"), [(0, False), (2 * HOUR_MS, False), (2 * HOUR_MS, True)]
)
def test_a_batch_sent_again_after_a_crash_is_scheduled_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later_ms: int,
    is_indexed: bool,
) -> None:
    """The crash falls between the delayed records and the batch that they came in.

    When it is sent again, the delayed ones may be due.
    """
    due = b"%d" % (START_MS + HOUR_MS)
    records = [
        NewRecord(value=b"now"),
        *(NewRecord(value=b"d%d" % n, headers=(("goqueue-deliver-at", due),)) for n in range(40)),
    ]
    batch = bytes(
        encode_records(
            records, now_ms=START_MS, producer_id=PRODUCER, producer_epoch=0, base_sequence=0
        )
    )

    async def scenario() -> None:
        data = tmp_path / "data"
        witness = Witness(data, tmp_path / "copies")
        clock = Clock()
        async with running(data, clock) as broker:
            await with_topic(broker)
            await open_shards(broker)
            with witness.watching(monkeypatch):
                await BrokerService(broker).log.produce(
                    ANYONE, TOPIC, 0, batch, acks=-1, timeout_ms=1_000
                )
        # Delayed records whole and torn, then the batch whole and torn.
        assert len(witness.crashes) == 4
        for crash in witness.crashes:
            if is_indexed:
                # What is known of producers comes from the index then.
                async with running(crash.folder, Clock()) as broker:
                    await open_shards(broker)
            async with running(crash.folder, Clock(START_MS + later_ms)) as broker:
                for _ in range(2):
                    await BrokerService(broker).log.produce(
                        ANYONE, TOPIC, 0, batch, acks=-1, timeout_ms=1_000
                    )
                    assert later_ms or stats(broker).pending == 40
            everything = {record.value or b"": 0 for record in records}
            crash.acknowledged = set(everything)
            await check(crash, everything, {})

    asyncio.run(scenario())


def test_crashes_during_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that dies again and again while it delivers what it found."""

    async def scenario() -> None:
        everything: dict[bytes, int] = {}
        first = tmp_path / "data"
        witness = Witness(first, tmp_path / "copies")
        clock = Clock()
        async with running(first, clock) as broker:
            await with_topic(broker)
            await schedule_all(
                broker, witness, everything, b"m", [100 + at % 3 for at in range(50)]
            )
            witness.copy()
        [crash] = witness.crashes
        for generation in range(6):
            again = Witness(crash.folder, tmp_path / f"generation-{generation}")
            again.acknowledged = witness.acknowledged
            late = Clock(START_MS + HOUR_MS)
            with again.watching(monkeypatch):
                async with running(crash.folder, late) as broker:
                    await until(lambda: _is_settled(broker, late))  # noqa: B023
            for each in again.crashes:
                await check(Crash(_copied(each.folder), each.acknowledged, set()), everything, {})
            # There is something left to do.
            torn = [each for each in again.crashes if each.is_torn]
            crash = torn[min(generation, len(torn) - 1)]

    asyncio.run(scenario())


def _copied(folder: Path) -> Path:
    copy = folder.with_name(folder.name + "-checked")
    shutil.copytree(folder, copy)
    return copy
