"""One run of a pipeline at a time, and who it is.

The kernel takes the lock away when the last process that has it ends, however it ends. So no lock
is ever stale, and what stands in its file tells of whoever holds it now, or held it last.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from goqueue.model.errors import GoQueueError

# The number of an open file that holds the lock: whoever watches a run hands it on to the run.
LOCK_VARIABLE: Final = "GOQUEUE_PIPELINE_LOCK"


class AlreadyRunning(GoQueueError):
    code = "already_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class RunLock:
    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name

    @contextmanager
    def held(self, since: str) -> Iterator[int]:
        """Yields the number of the open file; a second run is refused with who has it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Not emptied by opening it: it may tell of another run.
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self.holder() or "just begun"
                raise AlreadyRunning(
                    f"pipeline {self._name!r} is running already ({holder}); "
                    f"see `goqueue pipeline status {self._name}`, or end it with "
                    f"`goqueue pipeline stop {self._name}`"
                ) from None
            own = Holder(host=socket.gethostname(), pid=os.getpid(), since=since)
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps(asdict(own)).encode(), 0)
            yield lock
        finally:
            os.close(lock)

    def is_held(self) -> bool:
        try:
            with self._path.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def holder(self) -> Holder | None:
        """Who has it, or had it last."""
        try:
            return Holder(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
