"""Those who wait until something has reached an offset: the high watermark, or the disk."""

import asyncio
import heapq
from collections.abc import Callable

from goqueue.model.errors import GoQueueError


class OffsetWaits:
    """`heap` is for its owner to see whether anybody waits."""

    __slots__ = ("_ticket", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = 0

    async def reached(
        self, offset: int, timeout_ms: int, too_late: Callable[[int], GoQueueError]
    ) -> None:
        """Return when `release` was told this offset; `too_late(timeout_ms)` after the time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._ticket += 1
        heapq.heappush(self.heap, (offset, self._ticket, future))
        timer = loop.call_later(timeout_ms / 1000, _time_out, future, too_late, timeout_ms)
        try:
            await future
        finally:
            timer.cancel()

    def release(self, offset: int) -> None:
        """Everything below `offset` is there."""
        heap = self.heap
        while heap and heap[0][0] <= offset:
            _, _, future = heapq.heappop(heap)
            if not future.done():
                future.set_result(None)

    def fail(self, error: GoQueueError) -> None:
        for _, _, future in self.heap:
            if not future.done():
                future.set_exception(error)
        self.heap.clear()


def _time_out(
    future: "asyncio.Future[None]", too_late: Callable[[int], GoQueueError], timeout_ms: int
) -> None:
    if not future.done():
        future.set_exception(too_late(timeout_ms))
