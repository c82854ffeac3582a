"""Readers of a queue that wake each other."""

import asyncio
from collections import Counter

from goqueue.broker.queues.waiting import QueueLines, QueuesElsewhere
from goqueue.model.names import NodeId
from goqueue.model.rights import ReadableGroup, ReadableTopic

KEY = QueuesElsewhere(ReadableGroup("g"), ReadableTopic("t"), NodeId(2), (0,))
LOOK_TURNS = 5
ENOUGH_TURNS = 200


class Readers:
    """Each looks for some turns of the loop, as in a cluster, and then has all it may have."""

    def __init__(self) -> None:
        self.lines = QueueLines()
        self.looks: Counter[str] = Counter()

    async def read(self, name: str) -> None:
        while True:
            with self.lines.place([(KEY, None)]) as place:
                self.looks[name] += 1
                await turns(LOOK_TURNS)
                place.looked([KEY], full={KEY})
                await place.wait(60)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_readers_that_may_have_no_more_do_not_wake_each_other_without_end() -> None:
    async def scenario() -> None:
        readers = Readers()
        async with asyncio.TaskGroup() as tasks:
            running = []
            for name in "abc":
                running.append(tasks.create_task(readers.read(name)))
                await asyncio.sleep(0)
            await turns(ENOUGH_TURNS)
            assert readers.looks == Counter("abc")
            readers.lines.wake(KEY)
            await turns(ENOUGH_TURNS)
            assert readers.looks == Counter("aabbcc")
            for task in running:
                task.cancel()

    asyncio.run(scenario())


def test_one_that_looked_before_something_happened_is_told_by_one_that_may_have_no_more() -> None:
    async def scenario() -> None:
        lines = QueueLines()
        with lines.place([(KEY, None)]) as full, lines.place([(KEY, None)]) as looking:
            # `looking` is past this queue, and `full` is first in line.
            lines.wake(KEY)
            assert (full.waiter.is_woken, looking.waiter.is_woken) == (True, False)
            with lines.place([(KEY, None)]) as again:
                again.looked([KEY], full={KEY})
                waiting = asyncio.create_task(again.wait(60))
                await asyncio.sleep(0)
                assert looking.waiter.is_woken
                waiting.cancel()

    asyncio.run(scenario())
