"""The state runtime, with a machine small enough to see through: named counters that expire."""

import asyncio
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.table import StateTable
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.state.machine import Deadlines, Outcome, StateRecord, Ticket
from tests.unit.broker.conftest import OpenBroker

TOPIC = "__counters"


class Counters:
    """`add` answers with the new total; a total of zero removes the counter."""

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}
        self._deadlines: Deadlines[bytes] = Deadlines()

    def add(self, name: bytes, amount: int, ticket: Ticket[int]) -> Outcome:
        outcome = Outcome()
        total = self.totals.get(name, 0) + amount
        outcome.records.append(StateRecord(name, b"%d" % total if total else None))
        outcome.reply(ticket, total)
        outcome.effects.append(("changed", name))
        return outcome

    def get(self, name: bytes, ticket: Ticket[int]) -> Outcome:
        outcome = Outcome()
        outcome.reply(ticket, self.totals.get(name, 0))
        return outcome

    def expire_at(self, name: bytes, at_ms: int, ticket: Ticket[None]) -> Outcome:
        self._deadlines.set(name, at_ms)
        outcome = Outcome()
        outcome.reply(ticket, None)
        return outcome

    def replay(self, record: StateRecord) -> None:
        if record.value is None:
            self.totals.pop(record.key, None)
        else:
            self.totals[record.key] = int(record.value)

    def loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def on_deadline(self, now_ms: int) -> Outcome:
        names = self._deadlines.pop_due(now_ms, 100)
        return Outcome(records=[StateRecord(name, None) for name in names])


class Bench:
    """A state topic of counters on a broker, and the effects it asked for."""

    def __init__(self, broker: Node) -> None:
        self.effects: list[object] = []
        self.topic: StateTopic[Counters] = StateTopic(
            broker, TOPIC, partitions=2, make=self._make, perform=self._perform
        )

    def _make(self, index: int) -> Counters:
        return Counters()

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        self.effects += effects

    async def add(self, name: bytes, amount: int) -> int:
        shard = await self.topic.shard_for(name.decode())
        return await shard.execute(lambda machine, ticket, _: machine.add(name, amount, ticket))

    async def get(self, name: bytes) -> int:
        shard = await self.topic.shard_for(name.decode())
        return await shard.execute(lambda machine, ticket, _: machine.get(name, ticket))


def test_state_is_answered_after_its_commit_and_found_again(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            assert [await bench.add(b"a", 2), await bench.add(b"a", 3)] == [2, 5]
            assert await bench.add(b"gone", 1) == 1
            assert await bench.add(b"gone", -1) == 0
            assert bench.effects == [("changed", b"a")] * 2 + [("changed", b"gone")] * 2
            bench.topic.close()
        async with open_broker() as broker:
            bench = Bench(broker)
            assert await bench.get(b"a") == 5
            assert await bench.get(b"gone") == 0
            bench.topic.close()

    asyncio.run(scenario())


def test_commands_of_one_turn_share_a_batch_and_see_each_other(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(topic__fsync__policy="always") as broker:
            bench = Bench(broker)
            await bench.add(b"a", 1)
            shard = await bench.topic.shard_for("a")
            batches = len(list(shard.partition.log.headers_from(0)))
            answers = await asyncio.gather(*(bench.add(b"a", 1) for _ in range(50)))
            assert answers == list(range(2, 52))
            assert len(list(shard.partition.log.headers_from(0))) == batches + 1
            bench.topic.close()

    asyncio.run(scenario())


def test_a_read_waits_for_the_commit_of_what_it_saw(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(topic__fsync__policy="always") as broker:
            bench = Bench(broker)
            shard = await bench.topic.shard_for("a")
            adding = asyncio.create_task(bench.add(b"a", 1))
            reading = asyncio.create_task(bench.get(b"a"))
            while not reading.done():
                await asyncio.sleep(0)
            partition = shard.partition
            assert partition.high_watermark == partition.log_end_offset == 1
            assert [await adding, await reading] == [1, 1]
            bench.topic.close()

    asyncio.run(scenario())


def test_deadlines_fire_and_their_records_are_durable(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await bench.add(b"a", 1)
            shard = await bench.topic.shard_for("a")
            due_ms = broker.clock_ms() + 20
            await shard.execute(lambda machine, ticket, _: machine.expire_at(b"a", due_ms, ticket))
            while shard.machine.totals:
                await asyncio.sleep(0.005)
            assert broker.clock_ms() >= due_ms
            # Nobody is answered before what the deadline wrote is in the log.
            assert await bench.get(b"a") == 0
            bench.topic.close()
        async with open_broker() as broker:
            bench = Bench(broker)
            assert await bench.get(b"a") == 0
            bench.topic.close()

    asyncio.run(scenario())


def test_when_the_log_fails_nobody_is_told_of_success(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await bench.add(b"a", 1)
            shard = await bench.topic.shard_for("a")

            def refuse(batch: bytearray) -> None:
                raise PartitionOffline("disk on fire")

            monkeypatch.setattr(shard.partition, "append_own", refuse)
            results = await asyncio.gather(
                bench.add(b"a", 1), bench.get(b"a"), return_exceptions=True
            )
            assert [isinstance(result, GoQueueError) for result in results] == [True, True]
            # The next request finds a new shard, with what is in the log.
            monkeypatch.undo()
            assert await bench.get(b"a") == 1
            assert await bench.add(b"a", 1) == 2
        async with open_broker() as broker:
            bench = Bench(broker)
            assert await bench.get(b"a") == 2
            bench.topic.close()

    asyncio.run(scenario())


async def fill(bench: Bench, seed: int, count: int) -> None:
    dice = random.Random(seed)
    for _ in range(count):
        await bench.add(b"%d" % dice.randrange(20), dice.choice((-1, 1)))


def test_a_snapshot_and_the_rest_of_the_log_make_the_whole(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            await fill(bench, seed=1, count=200)
            shards = await bench.topic.all_shards()
            for shard in shards:
                await shard.snapshots.write()
            await fill(bench, seed=2, count=100)
            totals = [shard.machine.totals for shard in shards]
            for shard in shards:
                log, end = shard.partition.log, shard.partition.log_end_offset
                assert list(log.path.glob("*.state"))
                table = StateTable.load(log, up_to=end)
                assert {key: int(value) for key, value in table.entries.items()} == (
                    shard.machine.totals
                )
            bench.topic.close()
        async with open_broker() as broker:
            bench = Bench(broker)
            assert [s.machine.totals for s in await bench.topic.all_shards()] == totals
            bench.topic.close()

    asyncio.run(scenario())


def test_damaged_snapshots_are_passed_over(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            bench = Bench(broker)
            for seed in range(5):
                await fill(bench, seed, count=50)
                for shard in await bench.topic.all_shards():
                    await shard.snapshots.write()
            shards = await bench.topic.all_shards()
            totals = [shard.machine.totals for shard in shards]
            folders = [shard.partition.log.path for shard in shards]
            bench.topic.close()
        for folder in folders:
            *_, middle, newest = sorted(folder.glob("*.state"))
            assert len(list(folder.glob("*.state"))) == 3
            content = bytearray(newest.read_bytes())
            content[len(content) // 2] ^= 1
            newest.write_bytes(content)
            middle.write_bytes(middle.read_bytes()[:-3])
        async with open_broker() as broker:
            bench = Bench(broker)
            assert [s.machine.totals for s in await bench.topic.all_shards()] == totals
            bench.topic.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_after_any_step_loses_nothing_that_was_answered(tmp_path: Path, seed: int) -> None:
    """After each answer the data directory is copied, as a killed process would leave it."""

    async def survivors(folder: Path) -> dict[bytes, int]:
        broker = await Node.open(broker_config({"data.dir": str(folder)}))
        bench = Bench(broker)
        shards: list[StateShard[Counters]] = await bench.topic.all_shards()
        totals = {name: total for s in shards for name, total in s.machine.totals.items()}
        bench.topic.close()
        await broker.close()
        return totals

    async def scenario() -> None:
        dice = random.Random(seed)
        live = tmp_path / "live"
        broker = await Node.open(broker_config({"data.dir": str(live)}))
        bench = Bench(broker)
        expected: dict[bytes, int] = {}
        for step in range(25):
            name = b"%d" % dice.randrange(4)
            total = await bench.add(name, dice.choice((-1, 1, 2)))
            assert isinstance(total, int)
            expected[name] = total
            if dice.random() < 0.2:
                for shard in await bench.topic.all_shards():
                    await shard.snapshots.write()
            crashed = tmp_path / f"crashed-{step}"
            shutil.copytree(live, crashed)
            assert await survivors(crashed) == {k: v for k, v in expected.items() if v}
            shutil.rmtree(crashed)
        bench.topic.close()
        await broker.close()

    asyncio.run(scenario())
