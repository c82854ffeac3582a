"""Whoever stands by knows of the delayed messages what its log tells, and goes on from there.

Three replicas with real logs and indexes. Messages come in groups that may be committed in part;
they are cancelled, claimed, delivered and written again; leaders change, logs are cut, processes
are killed, and time passes.
"""

import asyncio
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.delays import indexed as indexed_delays
from goqueue.broker.delays import standby as delay_standby
from goqueue.broker.delays.figures import DelayFigures
from goqueue.broker.delays.indexed import LONG_AGO_MS, IndexedDelays
from goqueue.broker.delays.log import LocatedHeld, StoredMessage, stored_item
from goqueue.broker.delays.open_indexes import OpenIndexes
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.standby import DelayStandby
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime import slices, standby
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.model.batch import iterate_batches
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId
from goqueue.model.records import NewRecord, open_records
from goqueue.state.delays.machine import DelayMachine, Origin
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import Delivered, Scheduled, TargetKey
from goqueue.storage.log import PartitionLog
from tests.replicas import Replicas

NODES: Final = 3
TARGETS: Final = tuple(TargetKey(UUID(int=7), index) for index in range(2))
HOUR_MS: Final = 3_600_000
NEVER_MS: Final = 1 << 62
WEIGHTS: Final = {
    "schedule": 30,
    "cancel": 6,
    "claim": 8,
    "deliver": 8,
    "write again": 4,
    "hold": 3,
    "commit": 15,
    "fetch": 20,
    "settle": 8,
    "index": 5,
    "time": 4,
    "elect": 4,
    "restart": 2,
    "lose": 2,
}
STEPS: Final = 80


class ProducerIds:
    def __init__(self) -> None:
        self._last = 0

    async def refill(self) -> None:
        pass

    def take(self) -> int:
        self._last += 1
        return self._last


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self._dice = random.Random(seed)
        self.replicas = Replicas(folder, NODES, segment_bytes=100_000)
        self._threads = ThreadPoolExecutor(2)
        # Of three replicas one has to close its files now and then.
        self._open_indexes = OpenIndexes(limit=2)
        self._ids: Any = ProducerIds()
        self._leisure = {node: AtLeisure() for node in range(NODES)}
        self._loading: dict[int, asyncio.Task[DelayShard]] = {}
        self._standbys: dict[int, DelayStandby] = {}
        # Of each node, the end of its last leadership.
        self._closing: dict[int, asyncio.Task[None]] = {}
        self._indexing: list[asyncio.Task[None]] = []
        self.replicas.role_changed = self._role_changed

    def _clock_ms(self) -> int:
        return self.replicas.now_ms

    # --- roles, as a broker gives them ----------------------------------------------------

    def _role_changed(self, node: NodeId, hosted: HostedPartition) -> None:
        loading = self._loading.pop(node, None)
        if loading is not None:
            self._closing[node] = asyncio.create_task(_abandon(loading))
        if hosted.led is not None:
            self._loading[node] = asyncio.create_task(self._lead(node, hosted))
        elif hosted.following is not None and hosted.standby is None:
            hosted.standby = self._standbys[node] = DelayStandby(
                hosted,
                threads=self._threads,
                leisure=self._leisure[node],
                open_indexes=self._open_indexes,
                files_free=self._closing.get(node),
                has_ended=lambda: None,
            )

    async def _lead(self, node: int, hosted: HostedPartition) -> DelayShard:
        led = hosted.led
        assert led is not None
        if node in self._closing:
            await asyncio.wait((self._closing[node],))
        stands_by = self._standbys.pop(node, None)
        hosted.standby = None
        shard = DelayShard(
            led,
            clock_ms=self._clock_ms,
            threads=self._threads,
            producer_ids=self._ids,
            figures=DelayFigures(),
            open_indexes=self._open_indexes,
            stood_by=None if stands_by is None else await stands_by.hand_over(),
        )
        try:
            await shard.load()
            await shard.ensure_producer()
        except BaseException:
            await shard.abandon()
            raise
        return shard

    @property
    def _shard(self) -> DelayShard | None:
        loading = self._loading.get(self.replicas.state.leader)
        is_loaded = loading is not None and loading.done() and not loading.cancelled()
        return loading.result() if is_loaded and loading is not None else None

    async def _soon_loaded(self) -> DelayShard | None:
        """It may wait for followers that do not ask."""
        loading = self._loading.get(self.replicas.state.leader)
        if loading is not None:
            await asyncio.wait((loading,), timeout=0.02)
        return self._shard

    # --- what may happen ------------------------------------------------------------------

    async def step(self) -> None:
        dice, node = self._dice, self._dice.randrange(NODES)
        step = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        shard = self._shard or await self._soon_loaded()
        match step:
            case "commit":
                await self.replicas.commit()
            case "fetch":
                # Of one batch, groups are copied in part.
                await self.replicas.fetch(node, dice.choice((1, 1, 400, 100_000)))
            case "settle":
                await self._settle(node)
            case "index":
                await self._index(node)
            case "time":
                self.replicas.now_ms += dice.randrange(2 * HOUR_MS)
            case "elect":
                await self.replicas.elect_fit(node)
            case "restart":
                await self._restart(node)
            case "lose":
                await self._lose(node)
            case _ if shard is not None:
                self._change(shard, step)
        await asyncio.sleep(0)

    def _change(self, shard: DelayShard, step: str) -> None:
        dice, machine = self._dice, shard.machine
        target = dice.choice(TARGETS)
        origin = Origin(target, 1_000, 0, dice.randrange(1_000))
        pending = [entry for number in machine.pending if (entry := machine.pending.get(number))]
        match step:
            case "schedule":
                messages = [
                    (NewRecord(value=b"x" * 20), self._clock_ms() + dice.randrange(6 * HOUR_MS))
                    for _ in range(dice.randint(1, 10))
                ]
                shard.schedule(target, messages, dice.choice((None, origin)))
            case "hold":
                shard.hold(origin, [(NewRecord(value=b"held"), self._clock_ms())], self._clock_ms())
            case "cancel" if pending:
                shard.cancel(dice.choice(pending))
            case "claim":
                due = [entry for entry in pending if entry.due_ms <= self._clock_ms()]
                for number, known in enumerate(machine.targets):
                    mine = [entry.number for entry in due if entry.target == number]
                    if mine and machine.producer_id is not None and not known.is_dropped:
                        shard.note(*machine.claim(number, [mine[:5]]))
            case "deliver":
                for known in machine.targets:
                    if known.claims:
                        shard.note(Delivered(*known.key, known.claims[0].next_sequence))
            case "write again" if pending:
                _write_again(shard, dice.choice(pending))

    async def _index(self, node: int) -> None:
        """Now, whatever the rules say of when it is time."""
        shard = self._shard
        if node == self.replicas.state.leader and shard is not None:
            # It waits until all is committed that it is to know.
            self._indexing.append(asyncio.create_task(shard.update_index()))
        delays = self._delays(node)
        if delays is not None and delays.machine.is_between_groups:
            await delays.update()

    async def _settle(self, node: int) -> None:
        found = self._standbys.get(node)
        async with asyncio.timeout(30):
            while found is not None and (found._task or found._upkeep) is not None:
                await asyncio.sleep(0.001)

    async def _restart(self, node: int) -> None:
        if node == self.replicas.state.leader:
            return
        found = self._standbys.pop(node, None)
        if found is not None and self._dice.random() < 0.5:
            await found.close()
        noted = max(0, self.replicas[node].high_watermark - self._dice.randrange(30))
        await self.replicas.restart(node, high_watermark=noted)
        if found is not None and found.files_free is not None:
            await asyncio.wait((found.files_free,))
        await self.replicas.tell(node)

    async def _lose(self, node: int) -> None:
        leader, hosted = self.replicas.state.leader, self.replicas[node]
        if node != leader:
            hosted._lost_from = self._dice.randrange(hosted.log_end_offset + 1)
            await self.replicas.elect(leader)

    # --- what must be so ------------------------------------------------------------------

    def _delays(self, node: int) -> IndexedDelays | None:
        found = self._standbys.get(node)
        return None if found is None else found._delays

    async def check(self) -> None:
        for node in self.replicas.followers:
            delays, hosted = self._delays(node), self.replicas[node]
            if delays is not None and delays.next_offset <= hosted.high_watermark:
                await _check(delays, hosted.log)
        if self._shard is not None:
            await _check(self._shard._delays, self.replicas.led.log)

    async def end(self) -> None:
        """When all have everything, so have all who stand by."""
        await self.replicas.commit()
        async with asyncio.timeout(30):
            shard = await self._loading[self.replicas.state.leader]
        shard.schedule(TARGETS[0], [(NewRecord(value=b"last"), self._clock_ms())])
        await self.replicas.commit()
        for node in self.replicas.followers:
            await self._settle(node)
            assert self._standbys[node].lag == 0
        await self.check()

    async def close(self) -> None:
        await self.replicas.commit()
        for found in self._standbys.values():
            await found.close()
        for loading in self._loading.values():
            await _abandon(loading)
        await asyncio.gather(*self._closing.values())
        for said in await asyncio.gather(*self._indexing, return_exceptions=True):
            # It gave up with its leadership, or since nobody copied.
            assert said is None or isinstance(said, GoQueueError)
        await self._open_indexes.close()
        await self.replicas.close()
        self._threads.shutdown()


def _write_again(shard: DelayShard, entry: Entry) -> None:
    address = Scheduled(entry.number, entry.due_ms, shard.machine.targets[entry.target].key, 0)
    record = NewRecord(value=b"x" * 20)
    for message in shard.log.append_messages((), [(address, record)], shard.clock_ms()):
        shard.machine.replay_scheduled(*message)
    shard._delays.replayed(shard.log.end_offset)


async def _abandon(loading: "asyncio.Task[DelayShard]") -> None:
    loading.cancel()
    await asyncio.wait((loading,))
    if not loading.cancelled() and loading.exception() is None:
        await loading.result().abandon()


async def _check(delays: IndexedDelays, log: PartitionLog) -> None:
    """Against a machine that keeps everything in memory and reads the log from its start."""
    end, machine = delays.next_offset, delays.machine
    if delays._using.locked():
        return
    rows = await delays.page((LONG_AGO_MS, 0), 100_000)
    if delays.next_offset != end or delays.machine is not machine:
        return
    waiting = {number: machine.find(number) for number in (*machine.pending, *machine.far)}
    for row in rows:
        if row.due_ms >= machine.hot_until_ms:
            waiting.setdefault(row.number, row)
    model = _replayed(log, end)
    expected = {number: model.pending.get(number) for number in model.pending}
    assert _named(machine, waiting) == _named(model, expected)
    assert _knowledge(machine) == _knowledge(model)


def _named(machine: DelayMachine, entries: dict[int, Any]) -> dict[int, tuple[object, ...]]:
    return {
        number: (*entry, machine.targets[entry.target].key) for number, entry in entries.items()
    }


def _knowledge(machine: DelayMachine) -> dict[str, object]:
    targets = [
        (
            target.key,
            target.producer_id,
            target.next_sequence,
            target.pending,
            [
                (claim.producer_id, claim.base_sequence, list(claim.numbers))
                for claim in target.claims
            ],
        )
        for target in machine.targets
    ]
    return {
        "targets": targets,
        "claimed": machine.claimed,
        "producer": machine.producer_id,
        "next": machine.next_number,
        "bytes": machine.live_bytes,
        "origins": machine.origins(),
        "held": list(machine.held),
        "open": (machine._open_group, machine._open_origin),
    }


def _replayed(log: PartitionLog, end: int) -> DelayMachine:
    machine = DelayMachine(now_ms=0, hot_until_ms=NEVER_MS)
    offset = log.log_start_offset
    while offset < end:
        part = log.read(
            offset, 1 << 20, up_to=log.log_end_offset, at_least_one=True, may_block=True
        )
        for position, header in iterate_batches(part.data):
            for record in open_records(part.data[position : position + header.size_bytes]):
                if record.offset >= end:
                    return machine
                item = stored_item(record)
                if isinstance(item, StoredMessage):
                    machine.replay_scheduled(*item)
                elif isinstance(item, LocatedHeld):
                    machine.replay_held(*item)
                else:
                    machine.replay(item)
        offset = part.next_offset
    return machine


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_who_stands_by_knows_what_waits(seed: int) -> None:
    async def scenario(folder: Path) -> None:
        world = World(folder, seed)
        try:
            await world.replicas.elect(0)
            for _ in range(STEPS):
                await world.step()
                await world.check()
            await world.end()
        finally:
            await world.close()

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Indexes for the least, for much, and only where they are asked for.
        worth = (1, 30, 1_000)[seed % 3]
        patch.setattr(indexed_delays, "INDEX_WORTH_RECORDS", worth)
        patch.setattr(slices, "SLICE_SECONDS", 0)
        patch.setattr(standby, "PAUSE_S", 0)
        patch.setattr(delay_standby, "INDEX_PAUSE_MS", 0)
        asyncio.run(scenario(Path(folder)))
