"""A pipeline that is to run on: begun again when it fails, later and later, and in sight.

Each run is a process of its own, for what fails may be Java, or the memory of either. Both hold the
pipeline's lock: if the watcher dies the run goes on, and if the run dies nobody takes its place.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.pipelines.run_lock import LOCK_VARIABLE
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.state_folder import StateFolder

# How often the run was begun again, for the run to note.
RESTARTS_VARIABLE: Final = "GOQUEUE_PIPELINE_RESTARTS"
# How soon a request to stop or an end is seen.
_LOOK_SECONDS: Final = 0.3


class GaveUp(GoQueueError):
    """It failed as often in a row as is allowed."""

    code = "pipeline_gave_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How a run is begun again."""

    # The first wait; each failure doubles it.
    first_wait_seconds: float = 5.0
    # A broker that is away for an hour is found again within this.
    max_wait_seconds: float = 300.0
    # A run of this length was no failed start: the waits begin anew.
    healthy_seconds: float = 600.0
    # Failures in a row; beyond them somebody has to look. 20 are about an hour and a quarter.
    max_failures: int = 20

    def wait_seconds(self, failures: int) -> float:
        return float(min(self.first_wait_seconds * 2 ** (failures - 1), self.max_wait_seconds))


class Supervisor:
    """Runs a command until it succeeds, is told to stop, or fails in a way that stays."""

    def __init__(
        self,
        folder: StateFolder,
        restarts: Restarts,
        *,
        say: Callable[[str], None],
        stays_failed: Sequence[int],
    ) -> None:
        self._folder = folder
        self._restarts = restarts
        self._say = say
        self._stays_failed = stays_failed

    def run(self, command: Sequence[str]) -> int:
        """The exit code of the last run."""
        failures = total = 0
        with self._folder.locked() as lock:
            while True:
                started = time.monotonic()
                code = self._one_run(command, lock, total)
                if code == 0 or code in self._stays_failed or self._folder.stop_requested:
                    return code
                if time.monotonic() - started >= self._restarts.healthy_seconds:
                    failures = 0
                failures, total = failures + 1, total + 1
                reason = self._failure(code)
                if failures > self._restarts.max_failures:
                    raise GaveUp(
                        f"pipeline {self._folder.name!r} failed {failures} times in a row; the "
                        f"last time: {reason}"
                    )
                wait = self._restarts.wait_seconds(failures)
                self._note_wait(reason, total, wait)
                if self._wait(wait):
                    self._note_stop()
                    return 0

    def _one_run(self, command: Sequence[str], lock: int, total: int) -> int:
        marks = {LOCK_VARIABLE: str(lock), RESTARTS_VARIABLE: str(total)}
        run = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, env=os.environ | marks, pass_fds=[lock]
        )
        # It sees requests to stop by itself, and ends after its batch.
        return run.wait()

    def _failure(self, code: int) -> str:
        status = self._folder.last_written()
        if status is not None and status.state is RunState.FAILED and status.error:
            return status.error
        return f"its process ended by signal {-code}" if code < 0 else f"it ended with code {code}"

    def _note_wait(self, reason: str, total: int, wait: float) -> None:
        self._say(
            f"{self._folder.name}: failed: {reason}; begins again in {wait:.0f} s (restart {total})"
        )

        def change(status: RunStatus) -> None:
            status.state, status.error = RunState.WAITING, reason
            status.restarts, status.next_start_at = total, now_text(in_seconds=wait)

        self._folder.change(change)

    def _note_stop(self) -> None:
        def change(status: RunStatus) -> None:
            status.state, status.next_start_at = RunState.STOPPED, None
            status.ended_at = now_text()

        self._folder.change(change)

    def _wait(self, seconds: float) -> bool:
        """True if a stop was asked for meanwhile."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._folder.stop_requested:
                return True
            time.sleep(_LOOK_SECONDS)
        return self._folder.stop_requested
