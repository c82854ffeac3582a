"""A broker process without the second that imports take: forked from one that has them."""

import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Self

from goqueue.model.broker_config import broker_config
from goqueue.model.errors import GoQueueError
from goqueue.server.process import serve

REFUSED = 1
# For what hangs: a start or stop takes half a second on an idle machine.
LIMIT_SECONDS = 180.0
# What a broker would load when it is ready.
for name in ("goqueue.doors.http.app", "goqueue.doors.registry.routing"):
    importlib.import_module(name)
_POLL_SECONDS = 0.005


class ForkedServer:
    """From `start` to `stop`. The caller has one thread, as fork wants it."""

    def __init__(self, data_dir: Path, folder: Path, settings: dict[str, str]) -> None:
        self._settings = {
            **settings,
            "data.dir": str(data_dir),
            "kafka.port": "0",
            "http.port": "0",
        }
        self.ready_file = folder / "ready.json"
        self._log = folder / "server.log"
        self._pid = 0
        self.exit_code: int | None = None

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> Self:
        """Returns when it is ready or has ended."""
        self.ready_file.unlink(missing_ok=True)
        self._pid = os.fork()
        if self._pid == 0:
            self._run()
        give_up_at = time.monotonic() + LIMIT_SECONDS
        while not self.ready_file.exists() and not self._has_ended():
            if time.monotonic() > give_up_at:
                self._signal(signal.SIGKILL)
                raise AssertionError(f"it is not ready: {self.log_text}")
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> None:
        if self.exit_code is None:
            os.kill(self._pid, signal.SIGTERM)
        give_up_at = time.monotonic() + LIMIT_SECONDS
        while not self._has_ended():
            if time.monotonic() > give_up_at:
                self._signal(signal.SIGKILL)
                raise AssertionError(f"it does not stop: {self.log_text}")
            time.sleep(_POLL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)
        os.waitpid(self._pid, 0)
        self.exit_code = -number

    def _has_ended(self) -> bool:
        if self.exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code is not None

    def _run(self) -> None:
        """In the child; as the command `goqueue serve`."""
        code = 3
        try:
            file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            sys.stdout = os.fdopen(1, "w", buffering=1)
            sys.stderr = os.fdopen(2, "w", buffering=1)
            config = broker_config(self._settings)
            serve(config, ready_file=self.ready_file)
            code = 0
        except GoQueueError as error:
            print(f"goqueue: {error}", file=sys.stderr)
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
