"""A broker as a child process: started, watched through /proc, ended by its own id."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.artifacts import reason_of

# RabbitMQ, the slowest peer to come up, needs about 5 s on two idle cores.
START_LIMIT_S: Final = 90.0
STOP_LIMIT_S: Final = 20.0
# Short beside the start-up times that are measured (hundreds of ms).
READY_POLL_S: Final = 0.005

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class BrokerFailed(Exception):
    """A broker did not start, or ended while it was needed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ChildProcess:
    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._log_path = log_path
        self._name = log_path.stem
        self.started_at = time.perf_counter()
        with open(log_path, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env} if env else None,
            )
        self.start_seconds = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self, is_ready: Callable[[], bool]) -> None:
        """Returns when `is_ready` says so; the time from launch until then is kept."""
        deadline = self.started_at + START_LIMIT_S
        try:
            while not is_ready():
                self.check_alive()
                if time.perf_counter() > deadline:
                    raise BrokerFailed(
                        f"{self._name} was not ready within {START_LIMIT_S:.0f} s: "
                        f"{self.last_words()}"
                    )
                time.sleep(READY_POLL_S)
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.perf_counter() - self.started_at

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise BrokerFailed(
                f"{self._name} ended with code {self._process.returncode}: {self.last_words()}"
            )

    def last_words(self) -> str:
        return reason_of(self._log_path.read_text(errors="replace"))

    def cpu_seconds(self) -> float:
        """User and system time of the process and its children, past children included."""
        total = 0
        for pid in self._tree():
            # Fields 14 to 17 of proc(5) stat; the name before them may hold spaces.
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) if fields else 0
        return total / _TICKS_PER_S

    def resident_bytes(self) -> int:
        """Resident memory of the process and its children."""
        pages = (_read(f"/proc/{pid}/statm").split() for pid in self._tree())
        return sum(int(fields[1]) for fields in pages if fields) * _PAGE_BYTES

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        family = self._tree()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            for pid in family:
                _kill(pid)
            self._process.wait(STOP_LIMIT_S)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(STOP_LIMIT_S)

    def _tree(self) -> list[int]:
        found = [self.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, _read(str(children)).split())
        return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # ended between the listing and the look


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
