"""Running a load generator as a child and reading what it measured."""

import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.artifacts import reason_of

# Longer than any round of the full profile; a generator also gives up by itself before.
LOAD_LIMIT_S: Final = 300.0


class LoadFailed(Exception):
    """The generator could not do its round, or not every message made it."""


class Percentiles(msgspec.Struct, frozen=True):
    p50: float
    p99: float
    p999: float = msgspec.field(name="p99.9")
    max: float


class Throughput(msgspec.Struct, frozen=True):
    messages: int
    seconds: float
    failed: int = 0
    last_error: str = ""
    damaged: int = 0
    repeated: int = 0
    out_of_order: int = 0

    def check(self) -> None:
        problems = {
            "failed": self.failed,
            "damaged": self.damaged,
            "repeated": self.repeated,
            "out of order": self.out_of_order,
        }
        found = [f"{count} {what}" for what, count in problems.items() if count]
        if found:
            raise LoadFailed(
                f"of {self.messages} messages: {', '.join(found)} {self.last_error}".rstrip()
            )


class Latency(msgspec.Struct, frozen=True):
    messages: int
    latency_ms: Percentiles
    failed: int = 0
    generator_lag_max_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    output: str
    client_cpu_seconds: float


def run_generator(command: Sequence[str]) -> Finished:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{Path(command[0]).name} took over {LOAD_LIMIT_S:.0f} s") from error
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise LoadFailed(f"{Path(command[0]).name}: {reason_of(done.stdout + done.stderr)}")
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(done.stdout, cpu_seconds)
