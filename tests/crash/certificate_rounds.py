"""Certificates that are replaced over and over under load (`make soak-tls`).

Clients connect anew all the time, Kafka's and HTTP's, while others keep one connection and send on
it. Not one of them may fail. Prints what happened, and ends with 1 if something failed.
"""

import argparse
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
from confluent_kafka import Producer

from goqueue.server.tls.making import MadeCertificates
from goqueue.testing import ServerProcess
from tests.interop.tls_files import made, tls_server

CONNECTORS = 2
# ApiVersions, version 0.
_REQUEST = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_DEADLINE_SECONDS = 60


class Rounds:
    def __init__(self, server: ServerProcess, files: MadeCertificates) -> None:
        self._server = server
        self._files = files
        self._is_over = threading.Event()
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.serials: set[str] = set()

    def run(self, reloads: int) -> None:
        work = [self._connect] * CONNECTORS + [self._ask, self._produce]
        threads = [threading.Thread(target=self._guarded, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        try:
            for number in range(reloads + 1):
                # The first may have been seen already.
                before = len(self.serials) if number else 0
                if number:
                    made(self._files.ca.parent, renew=True)
                deadline = time.monotonic() + _DEADLINE_SECONDS
                while len(self.serials) == before and not self.failures:
                    if time.monotonic() > deadline:
                        self.failures.append("a new certificate was not seen")
                    time.sleep(0.005)
                if self.failures:
                    break
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def _guarded(self, work: "object") -> None:
        try:
            assert callable(work)
            work()
        except Exception as error:
            self.failures.append(f"{getattr(work, '__name__', work)}: {error!r}")

    def _connect(self) -> None:
        """Each time anew."""
        context = ssl.create_default_context(cafile=str(self._files.ca))
        host, port = self._server.bootstrap_servers.rsplit(":", 1)
        while not self._is_over.is_set():
            plain = socket.create_connection((host, int(port)), _DEADLINE_SECONDS)
            with context.wrap_socket(plain, server_hostname=host) as connection:
                connection.sendall(_REQUEST)
                assert len(connection.recv(4_096)) > 4
                shown = connection.getpeercert()
                assert shown is not None
                self.serials.add(str(shown["serialNumber"]))
            self.done["connections"] += 1

    def _ask(self) -> None:
        """HTTP, a new connection for each."""
        context = ssl.create_default_context(cafile=str(self._files.ca))
        while not self._is_over.is_set():
            assert httpx.get(self._server.http_url + "/readyz", verify=context).status_code == 200
            self.done["HTTP requests"] += 1

    def _produce(self) -> None:
        """One connection for all the time."""
        failed: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self._server.bootstrap_servers,
                "security.protocol": "ssl",
                "ssl.ca.location": str(self._files.ca),
                "error_cb": failed.append,
                "message.send.max.retries": 0,
            }
        )

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        while not self._is_over.is_set() and not failed:
            producer.produce("load", b"x" * 1_000, on_delivery=delivered)
            self.done["messages"] += 1
            if producer.poll(0.001) and failed:
                break
        assert producer.flush(_DEADLINE_SECONDS) == 0
        assert not failed, failed[0]


def replace_under_load(folder: Path, reloads: int) -> Rounds:
    files = made(folder / "certificates")
    with tls_server(folder / "data", files) as server:
        rounds = Rounds(server, files)
        rounds.run(reloads)
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reloads", type=int, default=100)
    reloads = parser.parse_args().reloads
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rounds = replace_under_load(Path(folder), reloads)
    seconds = time.monotonic() - began
    print(
        f"{len(rounds.serials) - 1} certificates replaced in {seconds:.0f} s under "
        f"{dict(rounds.done)}; failures: {rounds.failures or 'none'}"
    )
    return 1 if rounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
