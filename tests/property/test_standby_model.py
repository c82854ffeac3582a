"""Whoever stands by has, at any time, what its log tells as far as it got; and goes on from there.

Three replicas with real logs. Commands, fetches, elections in any order, logs that are cut above
what is committed, compacted, and processes that are killed.
"""

import asyncio
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.partitions import compaction
from goqueue.broker.partitions.compaction import Compactor
from goqueue.broker.runtime import slices, snapshots, standby, topic
from goqueue.state.machine import Outcome, StateRecord
from goqueue.storage.compaction.copying import compact
from goqueue.storage.compaction.plan import Answer, CompactionPlan
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from tests.replicas import Replicas
from tests.standbys import StandbyNodes, last_values

NODES: Final = 3
NAMES: Final = (b"a", b"b", b"c", b"d")
SMALL: Final[dict[str, Any]] = {
    "cleanup_policy": "compact",
    "segment_bytes": 700,
    "min_cleanable_dirty_ratio": 0.01,
    "delete_retention_ms": 1_000,
}

# How often each of them, of a hundred: what others need to have something to work on comes often.
WEIGHTS: Final = {
    "work": 30,
    "commit": 20,
    "fetch": 15,
    "settle": 8,
    "busy": 10,
    "turns": 5,
    "elect": 4,
    "compact": 4,
    "restart": 2,
    "lose": 2,
}
STEPS: Final = 100


class Chain:
    """Counters whose records say what they change: none may be missed or come twice."""

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}

    def add(self, name: bytes, amount: int) -> Outcome:
        before = self.totals.get(name, 0)
        record = StateRecord(name, _link(before, before + amount) if before + amount else None)
        return Outcome(records=[record])

    def replay(self, record: StateRecord) -> None:
        before, after = (0, 0) if record.value is None else map(int, record.value.split())
        if record.value is None:
            del self.totals[record.key]
            return
        assert self.totals.get(record.key, before) == before
        self.totals[record.key] = after

    def loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return None

    def on_deadline(self, now_ms: int) -> Outcome:
        return Outcome()


def _link(before: int, after: int) -> bytes:
    return b"%d %d" % (before, after)


class WorkerInThread:
    def __init__(self, plan: CompactionPlan) -> None:
        self._plan = plan

    def run(self) -> Answer:
        return compact(self._plan, Disk(), lambda _size_bytes: None)

    def kill(self) -> None:
        pass


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self._dice = random.Random(seed)
        self.replicas = Replicas(folder, NODES, **SMALL)
        self.nodes: StandbyNodes[Chain] = StandbyNodes(self.replicas, Chain)

    async def begin(self) -> None:
        await self.replicas.elect(0)

    async def step(self) -> None:
        dice, node = self._dice, self._dice.randrange(NODES)
        match dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]:
            case "work":
                names = dice.choices(NAMES, k=dice.randint(1, 8))
                await self._add([(name, dice.choice((-2, -1, 1, 2))) for name in names])
            case "commit":
                await self.replicas.commit()
            case "fetch":
                await self.replicas.fetch(node, dice.choice((1, 300, 100_000)))
            case "settle" if node not in self.nodes.busy_nodes:
                await self.nodes.settle(node)
            case "busy":
                await self.nodes.busy(node, dice.random() < 0.5)
            case "turns":
                for _ in range(dice.randint(1, 20)):
                    await asyncio.sleep(0)
            case "elect":
                await self.replicas.elect_fit(node)
            case "compact":
                await self._compact(node, dice.randrange(5_000))
            case "restart":
                await self._restart(node, dice.randrange(30))
            case "lose":
                await self._lose(node, dice.randrange(100))

    async def _add(self, changes: Iterable[tuple[bytes, int]]) -> None:
        """In one batch."""
        for shard in self.nodes.states[self.replicas.state.leader].loaded_shards():
            for name, amount in changes:
                shard.take(shard.machine.add(name, amount))
            await asyncio.sleep(0)

    async def _compact(self, node: int, later_ms: int) -> None:
        self.replicas.now_ms += later_ms
        compactor = Compactor([self.replicas[node]], clock_ms=lambda: self.replicas.now_ms)
        await compactor.compact_dirtiest()

    async def _restart(self, node: int, forgotten: int) -> None:
        """How far it is committed was noted some records ago."""
        if node != self.replicas.state.leader:
            noted = max(0, self.replicas[node].high_watermark - forgotten)
            await self.replicas.restart(node, is_clean=bool(forgotten % 2), high_watermark=noted)
            await self.replicas.tell(node)

    async def _lose(self, node: int, offset: int) -> None:
        """A follower's disk lost something, also of what was committed: it copies that again."""
        leader = self.replicas.state.leader
        if node != leader:
            self.replicas[node]._lost_from = min(offset, self.replicas[node].log_end_offset)
            await self.replicas.elect(leader)

    def check(self) -> None:
        for node in range(NODES):
            hosted, found = self.replicas[node], self.nodes.stood_by(node)
            if found is None or hosted.led is not None:
                continue
            machine, offset = found
            assert offset <= hosted.high_watermark
            if offset >= hosted.log.compaction.first_dirty_offset:
                assert machine.totals == _totals(hosted.log, offset)
        for shard in self.nodes.states[self.replicas.state.leader].loaded_shards():
            log = self.replicas.led.log
            assert shard.machine.totals == _totals(log, log.log_end_offset)

    async def end(self) -> None:
        """When all have everything, so have all who stand by."""
        leader, followers = self.replicas.state.leader, self.replicas.followers
        for node in range(NODES):
            await self.nodes.busy(node, False)
        await self._add([(b"last", 1)])
        await self.replicas.commit()
        async with asyncio.timeout(30):
            await self.nodes.states[leader].shard(0)
        await self._add([(b"very last", 1)])
        await self.replicas.commit()
        for node in followers:
            await self.nodes.settle(node)
            found = self.nodes.standby(node)
            assert found is not None
            assert found.lag == 0
        self.check()


def _totals(log: PartitionLog, up_to: int) -> dict[bytes, int]:
    return {name: int(link.split()[1]) for name, link in last_values(log, up_to).items()}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_who_stands_by_has_what_its_log_tells(seed: int) -> None:
    async def scenario(folder: Path) -> None:
        world = World(folder, seed)
        try:
            await world.begin()
            for _ in range(STEPS):
                await world.step()
                world.check()
            await world.end()
        finally:
            await world.nodes.close()
            await world.replicas.close()

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_SECONDS", 0)
        patch.setattr(standby, "PAUSE_S", 0)
        # On a busy machine the last load may take its time.
        patch.setattr(topic, "LOAD_PATIENCE_S", 60)
        patch.setattr(standby, "STANDBY_MIN_GAP_MS", 0)
        patch.setattr(snapshots, "SNAPSHOT_RECORDS", 5)
        patch.setattr(compaction, "CompactionWorker", WorkerInThread)
        asyncio.run(scenario(Path(folder)))
