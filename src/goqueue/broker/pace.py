"""Lets other work in while many things are looked at on the event loop."""

import asyncio
from time import perf_counter
from typing import Final

# A request that arrives meanwhile waits about this long at most.
SLICE_SECONDS: Final = 0.005


class Pace:
    def __init__(self) -> None:
        self._rest_at = perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """The slice; then `rest`."""
        return perf_counter() >= self._rest_at

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self._rest_at = perf_counter() + SLICE_SECONDS
