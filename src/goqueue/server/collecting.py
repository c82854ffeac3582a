"""When Python looks for garbage: often among what is new, hardly ever among all there is.

Reference counts free nearly everything; the collector is for objects that refer to each other in a
circle. A full collection looks at every object and stops the broker meanwhile: 100 ms with a
thousand partitions and all versions of Kafka's requests in memory, a second with ten thousand
partitions. So what has outlived a collection of what is new is set apart (`gc.freeze`), and the
next one does not look at it again. What is set apart and becomes garbage in a circle stays, which
is bounded: when the process has grown by half since the last full collection, there is another.
"""

import asyncio
import gc
import logging
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
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
# The most memory that the process ever took is looked at in place of the number of objects:
# counting a million takes 100 ms. Below this it is not worth while.
GROWN_FROM_BYTES: Final = 512 * 1024 * 1024
GROWTH: Final = 1.5
# Of `ru_maxrss` (getrusage(2)): kilobytes, but bytes on macOS.
_MEMORY_UNIT: Final = 1 if sys.platform == "darwin" else 1024
_STATUS: Final = Path("/proc/self/status")


class Collecting:
    """Takes the collector over from Python, on a running event loop."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._grown_bytes = GROWN_FROM_BYTES

    def start(self) -> None:
        # What start-up built stays. It is not looked at now: that would take 30 ms to find some
        # hundred objects.
        gc.freeze()
        gc.set_threshold(YOUNGEST, MIDDLE, NEVER)
        gc.enable()
        self._grown_bytes = max(_peak_bytes(), GROWN_FROM_BYTES)
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self.look)

    def look(self) -> None:
        if gc.isenabled() and gc.get_count()[2] >= OLDEST:
            gc.collect()
            gc.freeze()
        if _peak_bytes() > self._grown_bytes * GROWTH:
            self.look_at_all()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self.look)

    def look_at_all(self) -> None:
        began = time.perf_counter()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._grown_bytes = _peak_bytes()
        took_ms = (time.perf_counter() - began) * 1000
        log.info("looked for garbage among all objects: %d found in %.0f ms", found, took_ms)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _peak_bytes() -> int:
    """Linux keeps `ru_maxrss` over exec(2): it would be that of a large parent, too. It does where
    there is no such file, or no descriptor left to read it by: clients took them all."""
    with suppress(OSError):
        for line in _STATUS.read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MEMORY_UNIT
