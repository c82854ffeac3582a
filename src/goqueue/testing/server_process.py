"""`goqueue serve` as a child process, for tests that kill it."""

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from goqueue.model.errors import GoQueueError
from goqueue.testing.lifetime import Lifetime
from goqueue.testing.ports import free_port, free_ports
from goqueue.testing.secured_clients import SecuredClients

if TYPE_CHECKING:
    from goqueue.testing.secured import Secured

# Far more than a start takes, also on a machine with other things to do.
START_TIMEOUT_SECONDS: Final = 120.0
STOP_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005


class ServerNotReady(GoQueueError):
    code = "server_not_ready"


class ServerProcess(Lifetime, SecuredClients):
    """A broker process on free ports. It keeps data directory and ports over restarts."""

    # What Python runs as `goqueue`.
    PROGRAM: tuple[str, ...] = ("-m", "goqueue")

    def __init__(
        self,
        data_dir: Path | str,
        *options: str,
        environment: dict[str, str] | None = None,
        open_files_max: int | None = None,
        kafka_port: int | None = None,
        http_port: int | None = None,
        workers: int = 1,
        security: "bool | Secured" = False,
    ) -> None:
        """`options` are passed to `goqueue serve`: `"--set", "num.partitions=1"`.

        `open_files_max` is how many descriptors the process may have. With several `workers` it has
        as many processes below it, and as many Kafka ports one after the other. With `security` it
        speaks TLS and knows an administrator, and `client_config` and the like say how to log in;
        several brokers may be given the same.
        """
        self.data_dir = Path(data_dir)
        self._options = options
        self._environment = environment
        self._open_files_max = open_files_max
        self.workers = workers
        self._kafka_port = kafka_port or free_ports(workers)
        self._http_port = http_port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.bootstrap_servers = ""
        self.http_url = ""
        if security:
            self._secure(security)

    def _secure(self, security: "bool | Secured") -> None:
        from goqueue.testing.secured import Secured

        given = security if isinstance(security, Secured) else None
        self.secured = given or Secured.make(self._own_folder / "security")
        for name, value in self.secured.settings().items():
            self._options = (*self._options, "--set", f"{name}={value}")

    def _addresses(self) -> tuple[str, str]:
        return self.bootstrap_servers, self.http_url

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_text(self) -> str:
        """Everything the process wrote, over all its runs."""
        return self._log_path.read_text(errors="replace")

    @property
    def own_address(self) -> str:
        """Where it listens, which is not always what it tells its clients."""
        return f"127.0.0.1:{self._kafka_port}"

    def start(self) -> Self:
        """Start the process and return once it is ready."""
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """Start the process; `wait_ready` waits for it."""
        if self.is_running:
            raise ServerNotReady("the process is running already")
        ready_file = self._ready_file
        ready_file.unlink(missing_ok=True)
        command = [sys.executable, *self.PROGRAM, "serve", "--data-dir", str(self.data_dir)]
        command += ["--kafka-port", str(self._kafka_port), "--http-port", str(self._http_port)]
        if self.workers > 1:
            command += ["--workers", str(self.workers)]
        command += ["--ready-file", str(ready_file), *self._options]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                preexec_fn=self._limit_open_files if self._open_files_max else None,
                # Ctrl-C on the test run ends the tests, which end the broker.
                start_new_session=True,
            )

    def _limit_open_files(self) -> None:
        assert self._open_files_max is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._open_files_max, self._open_files_max))

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def sigterm(self) -> int:
        """Ask for a clean end, wait for it, and return the exit code."""
        return self._end_with(signal.SIGTERM)

    def sigkill(self) -> None:
        """End the process as a crash does."""
        self._end_with(signal.SIGKILL)

    def restart(self) -> Self:
        """Start again on the same data and ports; ends the process cleanly if it still runs."""
        if self.is_running:
            self.sigterm()
        return self.start()

    def close(self) -> None:
        if self.is_running:
            # Workers outlive one that is killed for a moment.
            self._end_with(signal.SIGKILL if self.workers == 1 else signal.SIGTERM)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def _child(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise ServerNotReady("the process was not started")
        return self._process

    @property
    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="goqueue-server-")
        return Path(self._folder.name)

    @property
    def _log_path(self) -> Path:
        return self._own_folder / "server.log"

    @property
    def _ready_file(self) -> Path:
        return self._own_folder / "ready.json"

    def wait_ready(self) -> None:
        """Wait for a process that was launched."""
        ready_file = self._ready_file
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not ready_file.exists():
            if self._child.poll() is not None:
                raise ServerNotReady(
                    f"the broker ended with {self._child.returncode}:\n{self.log_text}"
                )
            if time.monotonic() > deadline:
                self.sigkill()
                raise ServerNotReady(
                    f"the broker is not ready after {START_TIMEOUT_SECONDS:g} s:\n{self.log_text}"
                )
            time.sleep(_POLL_SECONDS)
        facts = json.loads(ready_file.read_text())
        self.bootstrap_servers = facts["bootstrap_servers"]
        self.http_url = facts["http_url"]

    def _end_with(self, number: signal.Signals) -> int:
        self._child.send_signal(number)
        return self.wait_ended()

    def wait_ended(self) -> int:
        """Wait for a process that was sent a signal, and return the exit code."""
        try:
            return self._child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise ServerNotReady(
                f"the broker did not end within {STOP_TIMEOUT_SECONDS:g} s"
            ) from None
