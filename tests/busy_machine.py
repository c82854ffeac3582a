"""Limits in seconds that hold on an idle machine, and what they are worth on a busy one."""

import os
import time

_SPIN_SECONDS = 0.02
# To measure takes processor time from those that are waited for, and some tests ask with each of
# thousands of requests.
_KNOWN_SECONDS = 1.0
# Processes that a test waits for wait for the processor, too, and for each other.
_GENEROSITY = 4
# Less than pytest's own limit (pyproject.toml), which does not tell what was waited for.
PATIENCE_MAX_S = 270.0
# The factor that was measured last, and until when it is used.
_known = (1.0, 0.0)


def patience(seconds: float) -> float:
    """As `stretched`, for one wait that a whole test may need."""
    return min(stretched(seconds), PATIENCE_MAX_S)


def stretched(seconds: float) -> float:
    """The limit itself where nothing else runs; more, the longer this thread waits for its turn."""
    global _known
    factor, until = _known
    if time.monotonic() >= until:
        factor = _measured()
        _known = factor, time.monotonic() + _KNOWN_SECONDS
    return seconds * factor


def _measured() -> float:
    """A thread that has slept gets the processor at once for a moment, however many others wait: so
    the mean number of those that wanted one during the last minute counts as well."""
    began, began_thread = time.perf_counter(), time.thread_time()
    while time.thread_time() - began_thread < _SPIN_SECONDS:
        pass
    spun, worked = time.perf_counter() - began, time.thread_time() - began_thread
    wanted = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 1 + _GENEROSITY * max(0.0, spun / worked - 1, wanted - 1)
