"""Long work in slices, so that other connections get their turns."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import Final, TypeVar

T = TypeVar("T")

# A request of more elements is worked on by itself, not side by side with others of its connection:
# only then may its work be cut into slices without changing what comes first.
LARGE_ELEMENTS: Final = 500
# Short beside what a client notices; long beside the few microseconds that a turn costs.
SLICE_SECONDS: Final = 0.005


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, one by one; whoever takes them lets others run every few milliseconds."""
    stop_at = perf_counter() + SLICE_SECONDS
    for item in items:
        yield item
        if perf_counter() > stop_at:
            await asyncio.sleep(0)
            stop_at = perf_counter() + SLICE_SECONDS
