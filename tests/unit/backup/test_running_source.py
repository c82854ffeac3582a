"""Brokers that are asked to hold still for a backup, and cannot."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from goqueue.backup.errors import BackupFailed
from goqueue.backup.running_source import RunningSource


class _Earlier(BaseHTTPRequestHandler):
    """A release that has no backups."""

    def do_POST(self) -> None:
        body = b'{"error":{"code":"not_found","message":"there is no /backups"}}'
        self.send_response(404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def earlier() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Earlier)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_broker_of_an_earlier_release_is_named(earlier: str) -> None:
    source = RunningSource("127.0.0.1:1", earlier)
    with pytest.raises(BackupFailed, match=rf"{earlier} knows nothing of backups: .* upgrade it"):
        source.cut()
    source.close()
