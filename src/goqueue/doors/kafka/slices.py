"""Requests with very many elements, in slices."""

from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from goqueue.pace import Pace

T = TypeVar("T")

# A request of more elements is worked on by itself, not side by side with others of its connection:
# only then may its work be cut into slices without changing what comes first.
LARGE_ELEMENTS: Final = 500


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, one by one; whoever takes them lets others run every few milliseconds."""
    pace = Pace()
    for item in items:
        yield item
        if pace.is_over:
            await pace.rest()
