"""Work that begins at once: a task only if it waits, and then the same as in a task."""

import asyncio

import pytest

from goqueue.eager import begin

pytestmark = pytest.mark.anyio


async def test_work_that_need_not_wait_is_done_at_once() -> None:
    async def work() -> str:
        return "done"

    assert begin(work()) == "done"


async def test_what_it_raises_at_once_is_raised_here() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(work())


async def test_work_that_waits_goes_on_in_a_task() -> None:
    steps: list[str] = []
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        steps.append("begun")
        steps.append(await first)
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        return "done"

    task = begin(work())
    assert isinstance(task, asyncio.Task)
    assert steps == ["begun"]
    first.set_result("woken")
    assert await task == "done"
    assert steps == ["begun", "woken"]


async def test_the_first_wait_may_be_over_before_the_task_runs() -> None:
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        return await first

    task = begin(work())
    first.set_result("early")
    assert isinstance(task, asyncio.Task)
    assert await task == "early"


async def test_a_first_wait_that_fails_fails_the_work() -> None:
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            return await first
        except ValueError:
            return "failed"

    task = begin(work())
    first.set_exception(ValueError())
    assert isinstance(task, asyncio.Task)
    assert await task == "failed"


@pytest.mark.parametrize("steps_before", [0, 1, 2])
async def test_cancelling_reaches_the_work_before_and_after_the_first_step_of_the_task(
    steps_before: int,
) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied up")
            raise

    task = begin(work())
    assert isinstance(task, asyncio.Task)
    for _ in range(steps_before):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "tidied up"]
