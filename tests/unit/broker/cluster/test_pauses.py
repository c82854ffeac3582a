"""A broker that stood still finds out who leads before it answers."""

import asyncio

import pytest

from goqueue.broker.membership.pauses import Pauses
from goqueue.model.errors import MetadataUnavailable, NotLeader


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_nothing_is_answered_between_a_pause_and_the_news_of_it() -> None:
    async def scenario() -> None:
        clock, caught_up, asked = Clock(), asyncio.Event(), 0

        async def catch_up() -> None:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise MetadataUnavailable("not yet")
            await caught_up.wait()

        pauses = Pauses(10.0, catch_up, clock_s=clock)
        pauses.check()
        pauses.start()
        clock.now_s += 9
        pauses.check()
        clock.now_s += 9
        for _ in range(2):
            with pytest.raises(NotLeader):
                pauses.check()
        caught_up.set()
        async with asyncio.timeout(30):
            while True:
                await asyncio.sleep(0.01)
                try:
                    pauses.check()
                    break
                except NotLeader:
                    continue
        assert asked == 2
        pauses.stop()
        # Who has stopped is not in doubt: it leads nothing any more.
        clock.now_s += 100
        pauses.check()

    asyncio.run(scenario())


def test_a_pause_is_noticed_without_a_request() -> None:
    async def scenario() -> None:
        clock, noticed = Clock(), asyncio.Event()

        async def catch_up() -> None:
            noticed.set()

        pauses = Pauses(0.01, catch_up, clock_s=clock)
        pauses.start()
        clock.now_s += 1
        async with asyncio.timeout(30):
            await noticed.wait()
        pauses.stop()

    asyncio.run(scenario())
