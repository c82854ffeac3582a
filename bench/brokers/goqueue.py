"""GoQueue, as `goqueue serve` runs it, at its defaults."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.artifacts import ROOT, run_tool
from bench.brokers.kafka_speaker import Fsync
from bench.child_process import ChildProcess, free_port
from bench.figures import GOQUEUE
from bench.kafka_wire import answers_kafka


class GoQueue:
    name = GOQUEUE

    def __init__(self, checkout: Path = ROOT) -> None:
        self._checkout = checkout
        self.port = 0
        self.process: ChildProcess

    def version(self) -> str:
        statement = "import goqueue; print(goqueue.__version__)"
        return run_tool(
            [sys.executable, "-c", statement], env=source_environment(self._checkout)
        ).strip()

    def start(self, folder: Path) -> None:
        self.port = free_port()
        self.process = ChildProcess(
            [
                *(sys.executable, "-m", "goqueue", "serve"),
                *("--data-dir", str(folder / "data")),
                *("--kafka-port", str(self.port), "--http-port", "0"),
            ],
            log_path=folder / "goqueue.log",
            env=source_environment(self._checkout),
        )
        self.process.wait_ready(lambda: answers_kafka(self.port))

    def stop(self) -> None:
        self.process.stop()

    def topic_config(self, fsync: Fsync) -> Mapping[str, str]:
        if fsync is Fsync.NEVER:
            return {"fsync.policy": "never"}
        return {"fsync.policy": "interval", "flush.ms": "1000"}


class EarlierGoQueue(GoQueue):
    """Of another checkout, to see what a change costs."""

    name = "GoQueue before"


def source_environment(checkout: Path = ROOT) -> dict[str, str]:
    """The source tree first, so that this checkout is measured and not an installed one."""
    inherited = os.environ.get("PYTHONPATH")
    source = str(checkout / "src")
    return {"PYTHONPATH": f"{source}{os.pathsep}{inherited}" if inherited else source}
