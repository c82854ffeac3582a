"""Turns: one at a time, by askers, and none is lost when somebody goes away."""

import asyncio
import random

import pytest

from goqueue.broker.fair_turns import FairTurns

pytestmark = pytest.mark.anyio


async def test_askers_take_turns() -> None:
    turns = FairTurns()
    order: list[str] = []

    async def take(asker: str) -> None:
        async with turns.turn(asker):
            order.append(asker)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for asker in "aaaabbc":
            tasks.create_task(take(asker))
    assert "".join(order) == "aabcaba"
    assert turns.waiting("a") == 0


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_who_goes_away_takes_the_turn_along(seed: int) -> None:
    chance = random.Random(seed)
    turns = FairTurns()
    inside = 0
    done = 0

    async def take(asker: str) -> None:
        nonlocal inside, done
        async with turns.turn(asker):
            inside += 1
            assert inside == 1
            try:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
        done += 1

    tasks = [asyncio.create_task(take(chance.choice("abc"))) for _ in range(50)]
    cancelled = 0
    for task in chance.sample(tasks, 25):
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        cancelled += task.cancel()
    async with asyncio.timeout(60):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(r is None or isinstance(r, asyncio.CancelledError) for r in results)
    assert done >= 50 - cancelled
    async with asyncio.timeout(60), turns.turn("d"):
        pass
