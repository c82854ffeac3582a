"""A real etcd for tests: one member on loopback, with data in a folder of its own."""

import socket
import subprocess
import time
from pathlib import Path

import grpc.aio

# Far more than a start takes, also on a machine with other things to do.
START_MAX_S = 60


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class EtcdServer:
    """Keeps its address and its data over restarts."""

    def __init__(
        self, folder: Path, *, certificate: Path | None = None, key: Path | None = None
    ) -> None:
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
        self._client_port, self._peer_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._client_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        client = f"{'https' if self._tls else 'http'}://{self.endpoint}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "etcd",
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
                stdout=log,
                stderr=log,
            )
        self._wait_until_it_listens()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_MAX_S)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_MAX_S)
            self._process = None

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_MAX_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._client_port), 1).close()
            except OSError:
                assert self._process is not None
                if self._process.poll() is not None:
                    raise AssertionError((self._folder / "etcd.log").read_text()) from None
                time.sleep(0.02)
            else:
                return
        raise AssertionError("etcd does not listen")


async def compact(endpoint: str, revision: int) -> None:
    """Make etcd forget what was before `revision`, as its own upkeep does."""
    # Field 1 of etcd's CompactionRequest is the revision, a varint.
    request, rest = b"\x08", revision
    while rest > 0x7F:
        request += bytes((rest & 0x7F | 0x80,))
        rest >>= 7
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call = channel.unary_unary("/etcdserverpb.KV/Compact", bytes, bytes)
        await call(request + bytes((rest,)))
