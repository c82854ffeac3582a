"""What is kept of each pipeline on this machine, in a folder of its name.

The process that runs a pipeline holds a lock on the folder, which the kernel takes away when the
process ends, however it ends: so nobody is misled by the number of a process that is gone.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text

_VARIABLE: Final = "GOQUEUE_PIPELINES"
_DEFAULT_ROOT: Final = Path(".goqueue") / "pipelines"
# As much of a log as helps to see why a process died.
_LOG_TAIL_BYTES: Final = 16 * 1024


class AlreadyRunning(GoQueueError):
    code = "already_running"


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
        self._lock_path = self.path / "lock"

    # --- for the process that runs it -----------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time; the second is refused."""
        self.path.mkdir(parents=True, exist_ok=True)
        with self._lock_path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                status = self._read()
                process = f" (process {status.pid})" if status else ""
                raise AlreadyRunning(
                    f"pipeline {self.name!r} is running already{process}; see `goqueue pipeline "
                    f"status {self.name}`, or end it with `goqueue pipeline stop {self.name}`"
                ) from None
            self._stop_path.unlink(missing_ok=True)
            yield

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

    @property
    def stop_requested(self) -> bool:
        return self._stop_path.exists()

    # --- for everybody else ---------------------------------------------------------------

    def status(self) -> RunStatus:
        status = self._read()
        if status is None:
            known = ", ".join(each.name for each in known_pipelines()) or "none"
            raise UnknownPipeline(
                f"no pipeline {self.name!r} has run here ({state_root()}); known: {known}"
            )
        if not status.state.is_over and not self.is_locked():
            # It may have ended between the two looks.
            status = self._read() or status
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

    def is_locked(self) -> bool:
        try:
            with self._lock_path.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def request_stop(self) -> None:
        self._stop_path.touch()

    def log_tail(self) -> str:
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _last_words(self) -> str:
        errors = [
            line for line in self.log_tail().splitlines() if "ERROR" in line or "Error" in line
        ]
        last = f"; last error in the log: {errors[-1].strip()[:300]}" if errors else ""
        return f"{last}; the log is {self.log_path}"

    def _read(self) -> RunStatus | None:
        try:
            return RunStatus.from_json(json.loads(self.status_path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
