"""Counts asked of brokers that can tell, cannot, or tell something else."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from goqueue.client import log_counts
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_counts import count_range
from goqueue.client.log_ranges import READ_COMMITTED, READ_UNCOMMITTED, LogRange
from goqueue.model.client_security import NO_SECURITY
from goqueue.testing.ports import free_port

WANTED = LogRange(topic="a b", topic_id=uuid.uuid4(), partition=3, start=10, end=40)
Answer = Callable[[str, dict[str, str]], tuple[int, Any]]


class Server:
    """Answers HTTP as the test says, and notes what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _path, _query: (404, {})
        self.asked: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(asked.query).items()}
                server.asked.append(query)
                status, body = server.answer(asked.path, query)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int | None]:
    """`asking(url)` counts with a broker that names this address, or none."""

    class Cluster:
        security = NO_SECURITY

        def patiently(self, ask: Callable[[], Any]) -> Any:
            return ask()

    def ask(url: str | None, isolation: int = READ_COMMITTED) -> int | None:
        monkeypatch.setattr(log_counts, "_http_url", lambda _cluster, _place: url)
        return count_range(cast(LogCluster, Cluster()), WANTED, isolation=isolation)

    monkeypatch.setattr(log_counts, "_given_up", {})
    return ask


def test_parts_are_added_up(server: Server, asking: Callable[..., int | None]) -> None:
    def answer(path: str, query: dict[str, str]) -> tuple[int, Any]:
        assert path == "/topics/a%20b/partitions/3/count"
        first = int(query["from"])
        reached = min(first + 20, 40)
        found = {"count": reached - first - 1, "nextOffset": reached, "from": first, "to": 40}
        return 200, {**found, "topicId": str(WANTED.topic_id)}

    server.answer = answer
    assert asking(server.url) == 19 + 9
    assert server.asked == [
        {"from": "10", "to": "40", "isolation": "read_committed"},
        {"from": "30", "to": "40", "isolation": "read_committed"},
    ]
    asking(server.url, READ_UNCOMMITTED)
    assert server.asked[-1]["isolation"] == "read_uncommitted"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"code": "unknown_path", "message": "there is no such path"}}),
        (416, {"error": {"code": "offset_out_of_range", "message": "gone"}}),
        (503, {"error": {"code": "not_leader", "message": "ask broker 2"}}),
        (200, {"count": 30, "nextOffset": 40, "topicId": str(uuid.uuid4())}),
        (200, {"count": 0, "nextOffset": 10, "topicId": str(WANTED.topic_id)}),
        (200, ["something else"]),
    ],
)
def test_others_are_read(
    server: Server, asking: Callable[..., int | None], status: int, body: Any
) -> None:
    server.answer = lambda _path, _query: (status, body)
    assert asking(server.url) is None
    assert len(server.asked) == 1


def test_kafka_itself_names_no_address(asking: Callable[..., int | None]) -> None:
    assert asking(None) is None


def test_who_is_out_of_reach_is_not_tried_by_every_task(
    asking: Callable[..., int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert asking(nowhere) is None
    assert list(log_counts._given_up) == [nowhere]

    monkeypatch.setattr(log_counts, "HttpApi", None)
    assert asking(nowhere) is None
