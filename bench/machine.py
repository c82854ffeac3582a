"""Where a run took place: enough to judge the figures, nothing that names a host."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The bars are stated for two cores shared by broker and client.
CORES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    processor: str
    cores_present: int
    cores_used: int
    memory_gb: int
    kernel: str
    python: str
    load_average_before: float


def keep_to_two_cores() -> None:
    """Children inherit the mask, so broker and client share the same cores everywhere."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def describe_machine() -> Machine:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        processor=_processor(),
        cores_present=os.cpu_count() or 0,
        cores_used=len(os.sched_getaffinity(0)),
        memory_gb=round(memory_bytes / 2**30),
        kernel=platform.release(),
        python=platform.python_version(),
        load_average_before=load_average(),
    )


def load_average() -> float:
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
