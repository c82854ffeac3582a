"""Limits in seconds that hold on an idle machine, and what they are worth on a busy one."""

import time

_SPIN_SECONDS = 0.02
# Processes that a test waits for wait for the processor, too, and for each other.
_GENEROSITY = 4


def stretched(seconds: float) -> float:
    """The limit itself where nothing else runs; more, the longer this thread waits for its turn."""
    began, began_thread = time.perf_counter(), time.thread_time()
    while time.thread_time() - began_thread < _SPIN_SECONDS:
        pass
    spun, worked = time.perf_counter() - began, time.thread_time() - began_thread
    return seconds * (1 + _GENEROSITY * max(0.0, spun / worked - 1))
