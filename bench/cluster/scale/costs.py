"""Processor time and memory of this process."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.process_costs import resident_bytes_of


class Watch:
    """`cpu_s` and `wall_s` are set when what is watched is over."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def watched() -> Iterator[Watch]:
    watch = Watch()
    cpu, wall = time.process_time(), time.perf_counter()
    yield watch
    watch.cpu_s = time.process_time() - cpu
    watch.wall_s = time.perf_counter() - wall


def resident_bytes() -> int:
    return resident_bytes_of(os.getpid())


def full_collection_s() -> float:
    """How long Python stands still when it looks for garbage among all objects."""
    gc.unfreeze()
    with watched() as watch:
        gc.collect()
    gc.freeze()
    return watch.cpu_s


def of_one(repetitions: int, act: Callable[[], object]) -> float:
    """Processor seconds of one of them."""
    with watched() as watch:
        for _ in range(repetitions):
            act()
    return watch.cpu_s / repetitions
