"""Long work beside other long work, and beside everybody else."""

import asyncio
import time

import pytest

from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.operation import has_many_elements
from goqueue.doors.kafka.rows import Rows
from goqueue.pace import SLICE_SECONDS, in_slices

pytestmark = pytest.mark.anyio


def _work() -> None:
    """For as long as a slice lasts."""
    until = time.perf_counter() + SLICE_SECONDS * 1.1
    while time.perf_counter() < until:
        pass


async def test_of_all_long_work_one_slice_is_done_in_a_turn() -> None:
    turn = 0
    slices: list[int] = []

    async def work() -> None:
        async for _ in in_slices(range(4)):
            slices.append(turn)
            _work()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    counting = asyncio.create_task(count_turns())
    await asyncio.gather(*(work() for _ in range(5)))
    counting.cancel()
    # They all began in the first turn; from then on each waited for the others.
    assert len(slices) == 20
    later = slices[5:]
    assert len(set(later)) == len(later)


async def test_work_that_is_given_up_keeps_nobody_waiting() -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        async for _ in in_slices(range(3)):
            _work()
        done.append(name)

    tasks = [asyncio.create_task(work(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == ["second", "third"]


def test_rows_are_made_one_by_one_and_counted_before() -> None:
    made: list[int] = []

    def make(number: int) -> dict[str, int]:
        made.append(number)
        return {"number": number}

    rows = Rows(range(LARGE_ELEMENTS + 1), make)
    assert has_many_elements({"topics": [{"partitions": rows}]})
    assert not has_many_elements({"topics": [{"partitions": Rows((1, 2), make)}]})
    assert made == []
    first = next(iter(rows))
    assert (first, made) == ({"number": 0}, [0])
