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
    """A broker with default settings, or several workers, and the reports of their loops."""

    PROGRAM = ("-m", "tests.hostile.watched_broker")

    def __init__(
        self,
        data_dir: Path,
        report: Path,
        *options: str,
        workers: int = 1,
        security: bool = False,
    ) -> None:
        environment = {**os.environ, REPORT_VARIABLE: str(report)}
        super().__init__(
            data_dir, *options, environment=environment, workers=workers, security=security
        )
        self._report = report

    def loop_report(self) -> dict[str, Any]:
        """Of all loops that there were, as if they were one."""
        found = [
            json.loads(path.read_text())
            for path in self._report.parent.glob(f"{self._report.name}.*")
        ]
        return {
            "turns": sum(each["turns"] for each in found),
            "over": {name: sum(each["over"][name] for each in found) for name in found[0]["over"]},
            "longest": {
                name: sorted(
                    (turn for each in found for turn in each["longest"][name]),
                    key=lambda turn: -turn[f"{name}_ms"],
                )
                for name in ("cpu", "wall")
            },
        }

    @property
    def pids(self) -> list[int]:
        """Its own, and those of its children."""
        return [self.pid, *_children(self.pid)]

    def usage(self) -> Usage:
        pids = self.pids
        memory_kb = sum(map(_resident_kb, pids))
        open_files = sum(map(_open_files, pids))
        return Usage(memory_kb / 1024, open_files, len(pids))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_children(child)]
    return found


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        # It ended between two looks.
        return 0


def _resident_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        # It ended between two looks.
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
