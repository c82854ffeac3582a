"""How late the event loop is: everything waits for it, so it is the first sign of overload."""

import asyncio
import time
from typing import Final

from goqueue.model.measuring.histograms import Histogram

# Ten looks a second cost some 30 µs, and a stall of 100 ms or more is never missed.
INTERVAL_SECONDS: Final = 0.1


class LoopLagProbe:
    """Asks to be called at a time, and notes how much later that happened."""

    def __init__(self, lag: Histogram) -> None:
        self._lag = lag
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        # uvloop's own clock stands still within a turn of the loop.
        self._due = time.perf_counter() + INTERVAL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._called)

    def _called(self) -> None:
        self._lag.observe(max(0.0, time.perf_counter() - self._due))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
