"""When Python looks for garbage: often among what is new, hardly ever among all there is.

Reference counts free nearly everything; the collector is for objects that refer to each other in a
circle. A full collection looks at every object and stops the broker meanwhile: 100 ms with a
thousand partitions and all versions of Kafka's requests in memory, a second with ten thousand
partitions. So what has outlived a collection of what is new is set apart (`gc.freeze`), and the
next one does not look at it again. What is set apart and becomes garbage in a circle stays, which
is bounded: when twice as much is set apart as there was after the last full collection, there is
another.
"""

import asyncio
import gc
import logging
import time
from typing import Final

log = logging.getLogger(__name__)

# New objects, net of those freed, that set off a collection of the youngest, and how many of those
# set off one of the middle generation: Python's own numbers.
YOUNGEST: Final = 700
MIDDLE: Final = 10
# Collections of the middle generation after which the oldest is looked at and set apart: some
# 30,000 objects, 10 ms with what becomes of them.
OLDEST: Final = 4
# What Python itself would wait for before it looks at the oldest.
NEVER: Final = 2**31 - 1
INTERVAL_SECONDS: Final = 0.1
# Counting what is set apart takes a millisecond for each 100,000.
COUNT_EVERY_SECONDS: Final = 60.0
# A broker that has just started has few, and what its first clients make it load is no garbage.
SET_APART_MIN: Final = 500_000


class Collecting:
    """Takes the collector over from Python, on a running event loop."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._set_apart = 0
        self._counted_at = time.monotonic()

    def start(self) -> None:
        # What start-up built stays. It is not looked at now: that would take 30 ms to find some
        # hundred objects.
        gc.freeze()
        gc.set_threshold(YOUNGEST, MIDDLE, NEVER)
        gc.enable()
        self._set_apart = max(gc.get_freeze_count(), SET_APART_MIN)
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self.look)

    def look(self) -> None:
        if gc.isenabled() and gc.get_count()[2] >= OLDEST:
            gc.collect()
            gc.freeze()
        now = time.monotonic()
        if now - self._counted_at > COUNT_EVERY_SECONDS:
            self._counted_at = now
            self.look_at_all_when_due()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self.look)

    def look_at_all_when_due(self) -> None:
        if gc.get_freeze_count() < 2 * self._set_apart:
            return
        began = time.perf_counter()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._set_apart = max(gc.get_freeze_count(), SET_APART_MIN)
        took_ms = (time.perf_counter() - began) * 1000
        log.info("looked for garbage among all objects: %d found in %.0f ms", found, took_ms)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
