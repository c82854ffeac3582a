"""What is fuzzed: code that gets bytes from outside, and what must hold for whatever they are.

A target's `run` takes any bytes. It turns the errors that the code documents into a verdict;
whatever else it raises is a finding. `judge` adds what holds for all: the verdict is the same
twice, and an input costs no more processor time and memory than the target says.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Final

# Larger inputs find little that smaller ones do not, and take a fuzzer's time.
INPUT_MAX_BYTES: Final = 64 * 1024
# Looks at an input that seems too slow: the collector of garbage or a neighbour may have been it.
_LOOKS: Final = 3
# Resets the largest memory that the process had (proc(5), clear_refs).
_RESET_PEAK: Final = b"5"

Verdict = object


class Finding(AssertionError):
    """A target does not hold what it promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    name: str
    # One sentence, for people who choose a target.
    promise: str
    run: Callable[[bytes], Verdict]
    # Of one input of `INPUT_MAX_BYTES` at most.
    cpu_ms_max: int = 100
    memory_mb_max: int = 64
    # Whether an earlier input may change what comes of a later one, as in a broker.
    has_state: bool = False
    # Gives back what inputs have opened.
    close: Callable[[], None] | None = None


def judge(target: Target, data: bytes, *, slowness: int = 1) -> Verdict:
    """Run one input; raise whatever is wrong with it. `slowness`: of instrumented code."""
    first = None if target.has_state else target.run(data)
    cpu_ms_max = target.cpu_ms_max * slowness
    for look in range(_LOOKS):
        before_kb = _reset_peak()
        started = process_time()
        again = target.run(data)
        cpu_ms = (process_time() - started) * 1_000
        memory_mb = (_memory_kb(b"VmHWM:") - before_kb) / 1_024
        if not target.has_state and again != first:
            raise Finding(f"{target.name}: {first!r} at first, {again!r} the second time")
        if memory_mb > target.memory_mb_max:
            raise Finding(
                f"{target.name}: {len(data)} bytes took {memory_mb:.0f} MB; "
                f"the limit is {target.memory_mb_max}"
            )
        if cpu_ms <= cpu_ms_max:
            break
        if look == _LOOKS - 1:
            raise Finding(
                f"{target.name}: {len(data)} bytes took {cpu_ms:.0f} ms of processor time; "
                f"the limit is {cpu_ms_max}"
            )
    return first


def _reset_peak() -> int:
    """Forget how much memory there was; returns how much there is."""
    descriptor = os.open("/proc/self/clear_refs", os.O_WRONLY)
    try:
        os.write(descriptor, _RESET_PEAK)
    finally:
        os.close(descriptor)
    return _memory_kb(b"VmRSS:")


def _memory_kb(name: bytes) -> int:
    descriptor = os.open("/proc/self/status", os.O_RDONLY)
    try:
        status = os.read(descriptor, 4_096)
    finally:
        os.close(descriptor)
    return int(status.partition(name)[2].split(maxsplit=1)[0])
