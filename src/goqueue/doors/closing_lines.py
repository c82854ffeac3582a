"""Log lines about connections that end badly: some per minute, and then how many more there were.

A client can send bad frames by the thousand. Who reads the log needs to see the first few.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

WINDOW_SECONDS: Final = 60.0
# From one address, and from all together.
LINES_PER_HOST: Final = 10
LINES_MAX: Final = 100


class ClosingLines:
    def __init__(
        self, log: logging.Logger, clock_seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock_seconds = clock_seconds
        self._window_ends = 0.0
        self._by_host: Counter[str] = Counter()
        self._lines = 0
        self._left_out = 0

    def write(
        self, level: int, host: str, message: str, *values: object, with_trace: bool = False
    ) -> None:
        now = self._clock_seconds()
        if now >= self._window_ends:
            self._begin_window(now)
        # An address beyond those that get a line need not be remembered.
        if self._lines >= LINES_MAX or self._by_host[host] >= LINES_PER_HOST:
            self._left_out += 1
            return
        self._lines += 1
        self._by_host[host] += 1
        self._log.log(level, message, *values, exc_info=with_trace)

    def _begin_window(self, now: float) -> None:
        if self._left_out:
            self._log.info("%d more such lines were left out within a minute", self._left_out)
        self._window_ends = now + WINDOW_SECONDS
        self._by_host.clear()
        self._lines = self._left_out = 0
