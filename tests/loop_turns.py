"""Whether others get their turn while something is done on the event loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def result_and_turns(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What comes of the work, and how often the event loop went round meanwhile."""
    task = asyncio.create_task(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns
