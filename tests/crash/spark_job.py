"""A Spark driver as a child process, with its Java and Python processes, for tests that kill it."""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# A session starts in seconds on a free machine, and in minutes on a busy one.
WAIT_SECONDS: Final = 600.0
_DAEMON: Final = b"pyspark.daemon"
_POLL_SECONDS: Final = 0.02


class SparkJob:
    """Runs a module that prints a line at every step. It is started again when it ended."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self.steps: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.starts = 0
        self._process: subprocess.Popen[str] | None = None

    def ensure(self) -> None:
        """Start it if it does not run: a query that failed is started by whoever watches it."""
        if self._process is not None and self._process.poll() is None:
            return
        self.starts += 1
        with self._log.open("ab") as log:
            # A group of its own, so that a kill takes the driver's Java and Python at once. Python
            # workers live on for a moment, as they do on other machines.
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.steps.put(line.strip())

    def forget_steps(self) -> None:
        while not self.steps.empty():
            self.steps.get()

    def wait_for_steps(self, count: int) -> None:
        """Until it has done so many since `forget_steps`, over as many starts as that takes."""
        deadline = time.monotonic() + WAIT_SECONDS
        while count:
            assert time.monotonic() < deadline, f"the job does not get on; see {self._log}"
            self.ensure()
            with contextlib.suppress(queue.Empty):
                self.steps.get(timeout=_POLL_SECONDS)
                count -= 1

    def kill(self) -> None:
        """SIGKILL for the driver: the Python that began the query, and its Java."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_SECONDS)

    def kill_worker(self, chance: random.Random) -> bool:
        """SIGKILL for one Python worker; False if there is none at the moment."""
        workers = self._workers()
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
        return True

    def _workers(self) -> Sequence[int]:
        """Children of the daemons that Spark forks its Python workers from."""
        assert self._process is not None
        daemons: set[int] = set()
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                pid = int(entry.name)
                # Daemons have groups of their own, in the session of the driver.
                if os.getsid(pid) != self._process.pid or _DAEMON not in _command_line(entry):
                    continue
                daemons.add(pid)
                parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        return sorted(pid for pid, parent in parents.items() if parent in daemons)

    def run_to_end(self, *arguments: str) -> None:
        """Run it once more with further arguments, until it ends by itself."""
        with self._log.open("ab") as log:
            subprocess.run(
                [*self._command, *arguments],
                stdout=subprocess.DEVNULL,
                stderr=log,
                check=True,
                timeout=WAIT_SECONDS,
            )


def _command_line(process: Path) -> bytes:
    return (process / "cmdline").read_bytes()
