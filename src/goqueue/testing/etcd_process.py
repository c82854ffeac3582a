"""etcd as a child process: one member on loopback, with its data in a folder of its own."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.testing.ports import free_port

# Far more than a start takes, also on a machine with other things to do.
START_MAX_S: Final = 60.0
_POLL_S: Final = 0.02
_LAUNCHES_MAX: Final = 5
_PORT_TAKEN_S: Final = 1.0


class EtcdNotReady(GoQueueError):
    code = "etcd_not_ready"


class _PortTaken(EtcdNotReady):
    """Somebody else got the port that was free a moment ago."""


class EtcdProcess:
    """Keeps its address and its data over restarts."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """With `certificate` and `key` it speaks TLS, and only to clients of that certificate."""
        self._folder = folder
        self._tls = (
            []
            if certificate is None
            else [
                f"--cert-file={certificate}",
                f"--key-file={key}",
                f"--trusted-ca-file={certificate}",
                "--client-cert-auth",
            ]
        )
        self.port = port or free_port()
        self._peer_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise EtcdNotReady(
                "etcd is not on the PATH; a cluster keeps its metadata there "
                "(Debian: apt-get install etcd-server, macOS: brew install etcd)"
            )
        for _ in range(_LAUNCHES_MAX - 1):
            try:
                self._launch(program)
                return
            except _PortTaken:
                # By a connection of somebody else, which does not last.
                time.sleep(_PORT_TAKEN_S)
        self._launch(program)

    def _launch(self, program: str) -> None:
        client = f"{'https' if self._tls else 'http'}://{self.endpoint}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--data-dir={self._folder / 'data'}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=default={peer}",
                    # One member elects itself: it need not wait a second for others.
                    "--heartbeat-interval=20",
                    "--election-timeout=200",
                    *self._tls,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C on the test run ends the tests, which end etcd.
                start_new_session=True,
            )
        self._wait_until_it_listens()

    def stop(self) -> None:
        self._end_with(signal.SIGTERM)

    def kill(self) -> None:
        self._end_with(signal.SIGKILL)

    def pause(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    @property
    def _child(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise EtcdNotReady("etcd is not running")
        return self._process

    def _end_with(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_MAX_S)
            self._process = None

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_MAX_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            if self._child.poll() is not None:
                told = (self._folder / "etcd.log").read_text()
                is_taken = "address already in use" in told.rsplit("etcd Version", 1)[-1]
                raise (_PortTaken if is_taken else EtcdNotReady)(f"etcd ended:\n{told}")
            time.sleep(_POLL_S)
        self.kill()
        raise EtcdNotReady(f"etcd does not listen after {START_MAX_S:g} s")
