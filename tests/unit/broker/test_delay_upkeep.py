"""One timer and one loop for all shards of delayed messages, however many there are."""

import asyncio

import pytest

from goqueue.broker.delays.alarm_clock import STALE_MAX, AlarmClock
from goqueue.broker.delays.upkeep import AT_ONCE, IDLE_ROUNDS, DelayUpkeep
from goqueue.model.errors import GoQueueError
from tests.unit.broker.delay_bench import START_MS, Clock, until


class Sleeper:
    def __init__(self, name: str, rung: list[str]) -> None:
        self._name = name
        self._rung = rung

    def ring(self) -> None:
        self._rung.append(self._name)


def test_alarms_ring_at_their_times_once_and_in_order() -> None:
    async def scenario() -> None:
        clock, rung = Clock(), list[str]()
        alarms = AlarmClock(clock)
        one, two, three = (Sleeper(name, rung) for name in ("one", "two", "three"))
        alarms.set(three.ring, START_MS + 30)
        alarms.set(one.ring, START_MS + 10)
        alarms.set(two.ring, START_MS + 20)
        await asyncio.sleep(0.05)
        assert not rung  # the loop's time is not the clock's
        clock.now_ms += 20
        await until(lambda: len(rung) == 2)
        clock.now_ms += 100
        await until(lambda: len(rung) == 3)
        await asyncio.sleep(0.05)
        assert rung == ["one", "two", "three"]

    asyncio.run(scenario())


def test_an_alarm_that_is_set_anew_or_unset_does_not_ring_at_the_old_time() -> None:
    async def scenario() -> None:
        clock, rung = Clock(), list[str]()
        alarms = AlarmClock(clock)
        moved, gone, last = (Sleeper(name, rung) for name in ("moved", "gone", "last"))
        alarms.set(moved.ring, START_MS + 10)
        alarms.set(gone.ring, START_MS + 10)
        alarms.set(moved.ring, START_MS + 50)
        alarms.unset(gone.ring)
        alarms.set(last.ring, START_MS + 20)
        clock.now_ms += 30
        await until(lambda: bool(rung))
        assert rung == ["last"]
        clock.now_ms += 30
        await until(lambda: len(rung) == 2)
        assert rung == ["last", "moved"]

    asyncio.run(scenario())


def test_all_alarms_ring_when_the_clock_was_set_back() -> None:
    """Who waits counts from a time that is ahead now."""

    async def scenario() -> None:
        clock, rung = Clock(), list[str]()
        alarms = AlarmClock(clock)
        for name in "abc":
            alarms.set(Sleeper(name, rung).ring, START_MS + 900_000)
        clock.now_ms -= 500
        await asyncio.sleep(1.1)
        assert not rung
        clock.now_ms -= 3_600_000
        await until(lambda: rung == ["a", "b", "c"])

    asyncio.run(scenario())


def test_alarms_that_are_set_again_and_again_take_no_room() -> None:
    async def scenario() -> None:
        alarms, ring = AlarmClock(Clock()), Sleeper("x", []).ring
        for at in range(10_000):
            alarms.set(ring, START_MS + 1_000_000 - at)
        assert len(alarms._heap) <= STALE_MAX + 3
        alarms.unset(ring)

    asyncio.run(scenario())


class Shard:
    def __init__(self, name: str) -> None:
        self.name = name
        self.end_offset = 0
        self.is_upkeep_due = True
        self.upkeeps = 0
        self.error: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def upkeep(self) -> None:
        self.upkeeps += 1
        await self.go_on.wait()
        if self.error is not None:
            raise self.error


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_was_written_to_is_looked_after_every_round_and_the_rest_in_turn() -> None:
    async def scenario() -> None:
        shards = [Shard(str(at)) for at in range(25)]
        upkeep = DelayUpkeep(lambda: shards)
        upkeep.look()  # all are new
        await turns()
        for _ in range(IDLE_ROUNDS):
            shards[7].end_offset += 1
            upkeep.look()
            await turns()
        assert [shard.upkeeps for shard in shards] == [2] * 7 + [1 + IDLE_ROUNDS] + [2] * 17
        await upkeep.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [GoQueueError("no"), ValueError("not foreseen")])
def test_a_shard_in_trouble_does_not_keep_others_from_being_looked_after(error: Exception) -> None:
    async def scenario() -> None:
        shards = [Shard(str(at)) for at in range(AT_ONCE + 2)]
        shards[0].error = error
        shards[1].go_on.clear()
        upkeep = DelayUpkeep(lambda: shards)
        for _ in range(3):
            for shard in shards:
                shard.end_offset += 1
            upkeep.look()
            await turns()
        assert [shard.upkeeps for shard in shards] == [3, 1, *[3] * AT_ONCE]
        leaving = asyncio.create_task(upkeep.leave(shards.pop(1)))
        await asyncio.wait_for(leaving, 60)
        await upkeep.close()

    asyncio.run(scenario())


def test_no_more_are_looked_after_at_once_than_there_are_threads() -> None:
    async def scenario() -> None:
        shards = [Shard(str(at)) for at in range(3 * AT_ONCE)]
        for shard in shards:
            shard.go_on.clear()
        upkeep = DelayUpkeep(lambda: shards)
        upkeep.look()
        await turns()
        assert sum(shard.upkeeps for shard in shards) == AT_ONCE
        for shard in shards:
            shard.go_on.set()
        await turns()
        assert [shard.upkeeps for shard in shards] == [1] * len(shards)
        await upkeep.close()

    asyncio.run(scenario())
