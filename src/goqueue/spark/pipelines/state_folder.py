"""What is kept of each pipeline on this machine, in a folder of its name.

The process that runs a pipeline holds the folder's lock: a run that is not over and holds no lock
has died.
"""

import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.run_lock import LOCK_VARIABLE, RunLock
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text

_VARIABLE: Final = "GOQUEUE_PIPELINES"
_DEFAULT_ROOT: Final = Path(".goqueue") / "pipelines"
# As much of a log as helps to see why a process died.
_LOG_TAIL_BYTES: Final = 16 * 1024
# How soon a reader of the log sees a line.
_FOLLOW_SECONDS: Final = 0.3


class UnknownPipeline(GoQueueError):
    code = "unknown_pipeline"


def state_root() -> Path:
    given = os.environ.get(_VARIABLE)
    return Path(given).expanduser() if given else _DEFAULT_ROOT


def known_pipelines() -> "list[StateFolder]":
    root = state_root()
    if not root.is_dir():
        return []
    found = [StateFolder(each.name) for each in sorted(root.iterdir()) if each.is_dir()]
    return [each for each in found if each.status_path.exists()]


class StateFolder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.path = (state_root() / name).absolute()
        self.status_path = self.path / "status.json"
        self.log_path = self.path / "log"
        self.checkpoint_path = self.path / "checkpoint"
        self._stop_path = self.path / "stop"
        self._lock = RunLock(self.path / "lock", name)

    # --- for the process that runs it -----------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[int]:
        """One run at a time; the second is refused. Yields what is handed on with the lock."""
        handed_on = os.environ.get(LOCK_VARIABLE)
        if handed_on:
            # Who watches this run has the lock, and so have we; requests to stop are for both.
            yield int(handed_on)
            return
        with self._lock.held(now_text()) as lock:
            self._stop_path.unlink(missing_ok=True)
            yield lock

    def keep_definition(self, definition: PipelineDefinition) -> None:
        """A copy, to see later what ran."""
        source = definition.file.path
        shutil.copyfile(source, self.path / f"definition{source.suffix}")

    def write(self, status: RunStatus) -> None:
        """Replace it as a whole: a reader never sees half of it."""
        status.updated_at = now_text()
        draft = self.status_path.with_suffix(".draft")
        draft.write_text(json.dumps(status.to_json(), indent=2) + "\n", encoding="utf-8")
        draft.replace(self.status_path)

    def change(self, how: Callable[[RunStatus], None]) -> None:
        """For the holder of the lock, who is the only one that writes."""
        status = self.last_written()
        if status is not None:
            how(status)
            self.write(status)

    @property
    def stop_requested(self) -> bool:
        return self._stop_path.exists()

    # --- for everybody else ---------------------------------------------------------------

    def status(self) -> RunStatus:
        status = self.last_written()
        if status is None:
            known = ", ".join(each.name for each in known_pipelines()) or "none"
            raise UnknownPipeline(
                f"no pipeline {self.name!r} has run here ({state_root()}); known: {known}"
            )
        if not status.state.is_over and not self.is_locked():
            # It may have ended between the two looks.
            status = self.last_written() or status
            if not status.state.is_over and self.stop_requested:
                # It did not end soon enough, and was ended by force.
                status.state = RunState.STOPPED
            elif not status.state.is_over:
                status.state = RunState.FAILED
                status.error = (
                    f"process {status.pid} ended without a word (killed, or out of memory?)"
                    + self._last_words()
                )
        return status

    @property
    def written_ns(self) -> int:
        """When a run last wrote its status; 0 if none did."""
        return self.status_path.stat().st_mtime_ns if self.status_path.exists() else 0

    def is_locked(self) -> bool:
        return self._lock.is_held()

    def request_stop(self) -> None:
        self._stop_path.touch()

    def log_tail(self) -> str:
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def last_lines(self, count: int) -> tuple[list[str], int]:
        """Of the log, and the place after them."""
        try:
            with self.log_path.open("rb") as log:
                lines = deque(log, maxlen=count)
                return [line.decode(errors="replace").rstrip("\n") for line in lines], log.tell()
        except FileNotFoundError:
            return [], 0

    def follow_log(self, place: int) -> Iterator[str]:
        """What is written after a place, until the run is over; a log may begin anew."""
        is_over = False
        while True:
            size = self.log_path.stat().st_size if self.log_path.exists() else 0
            place = 0 if size < place else place
            if size > place:
                with self.log_path.open("rb") as log:
                    log.seek(place)
                    news = log.read()
                place += len(news)
                yield news.decode(errors="replace")
            elif is_over:
                return
            is_over = not self.is_locked()
            time.sleep(_FOLLOW_SECONDS)

    def _last_words(self) -> str:
        errors = [
            line for line in self.log_tail().splitlines() if "ERROR" in line or "Error" in line
        ]
        last = f"; last error in the log: {errors[-1].strip()[:300]}" if errors else ""
        return f"{last}; the log is {self.log_path}"

    def last_written(self) -> RunStatus | None:
        """As its process left it; `status` also knows when that is gone."""
        try:
            return RunStatus.from_json(json.loads(self.status_path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
