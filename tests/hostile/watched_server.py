"""A broker process whose event loop is watched, and how much memory it and its children take."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from goqueue.testing import ServerProcess
from tests.hostile.watched_broker import REPORT_VARIABLE


class Usage(NamedTuple):
    """Of a process and its children."""

    memory_mb: float
    open_files: int
    processes: int


class WatchedServer(ServerProcess):
    """A broker process with default settings, and the report of its loop."""

    PROGRAM = ("-m", "tests.hostile.watched_broker")

    def __init__(self, data_dir: Path, report: Path, *options: str) -> None:
        environment = {**os.environ, REPORT_VARIABLE: str(report)}
        super().__init__(data_dir, *options, environment=environment)
        self._report = report

    def loop_report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    def usage(self) -> Usage:
        pids = [self.pid, *_children(self.pid)]
        memory_kb = sum(map(_resident_kb, pids))
        open_files = sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())
        return Usage(memory_kb / 1024, open_files, len(pids))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_children(child)]
    return found


def _resident_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        # It ended between two looks.
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
