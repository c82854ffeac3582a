"""A pytest plugin: what clients send to server processes passes a proxy, which keeps it.

pytest -p tests.fuzz.recording tests/interop/…    (see `record.py`)
"""

import os
import socket
import threading
from pathlib import Path
from typing import Any, Final

from goqueue.testing import ServerProcess
from tests.fuzz import corpus, recorded

# Kept of one connection: its first requests are what is wanted.
STREAM_MAX_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = 64 * 1024

_streams: dict[str, list[bytearray]] = {"kafka": [], "web": []}


class Proxy:
    """Listens on loopback, and passes everything on in both directions."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.broker_port = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            try:
                broker = socket.create_connection(("127.0.0.1", self.broker_port))
            except OSError:
                client.close()
                continue
            stream = bytearray()
            _streams[self._kind].append(stream)
            for source, sink, kept in ((client, broker, stream), (broker, client, None)):
                threading.Thread(target=_pass_on, args=(source, sink, kept), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray | None) -> None:
    try:
        while piece := source.recv(_PIECE_BYTES):
            if kept is not None and len(kept) < STREAM_MAX_BYTES:
                kept += piece
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        sink.close()
        source.close()


def pytest_configure() -> None:
    """Every server is started behind proxies from here on."""
    init, start = ServerProcess.__init__, ServerProcess.start

    def init_behind(self: Any, data_dir: Path | str, *options: str, **more: Any) -> None:
        self._proxies = Proxy("kafka"), Proxy("web")
        advertised = ("--set", f"advertised.kafka.port={self._proxies[0].port}")
        init(self, data_dir, *options, *advertised, **more)

    def start_behind(self: Any) -> Any:
        kafka, web = self._proxies
        kafka.broker_port, web.broker_port = self._kafka_port, self._http_port
        start(self)
        self.bootstrap_servers = f"127.0.0.1:{kafka.port}"
        self.http_url = f"http://127.0.0.1:{web.port}"
        return self

    ServerProcess.__init__ = init_behind  # type: ignore[method-assign]
    ServerProcess.start = start_behind  # type: ignore[method-assign]


def pytest_unconfigure() -> None:
    """Write one request of each kind; the corpus is a matter of `record.py`."""
    folder = Path(os.environ["RECORDED_REQUESTS"])
    kafka: dict[str, bytes] = {}
    batches: dict[str, bytes] = {}
    web: dict[str, bytes] = {}
    for stream in _streams["kafka"]:
        for label, frame in recorded.frames_in(bytes(stream)):
            kafka.setdefault(label, frame)
            for kind, batch in recorded.batches_in(frame):
                batches.setdefault(kind, batch)
    for stream in _streams["web"]:
        for label, request in recorded.web_requests_in(bytes(stream)):
            web.setdefault(label, request)
    for name, requests in (("kafka", kafka), ("batches", batches), ("web", web)):
        (folder / name).mkdir(exist_ok=True)
        for label, data in requests.items():
            (folder / name / corpus.named("x", label, data).removeprefix("x/")).write_bytes(data)
