"""What SDKs do with a refusal that passes by itself, as while a partition has no leader."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.config import Config

from goqueue.doors.sqs.answering import query_error_header
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.web.sending import retry_after
from goqueue.model.errors import NotLeader

REFUSED_FIRST = 2


class Passing(BaseHTTPRequestHandler):
    """Refuses as the SQS door does, then answers."""

    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).asked += 1
        if type(self).asked > REFUSED_FIRST:
            self._answer(200, b'{"QueueUrls": ["http://localhost/000000000000/q"]}')
            return
        refused = refusal(NotLeader("q-0 has no leader just now"))
        body = {"__type": refused.kind.json_type, "message": refused.message}
        headers = [query_error_header(refused), *retry_after(refused.kind.status)]
        self._answer(refused.kind.status, json.dumps(body).encode(), headers)

    def _answer(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        for name, value in headers or ():
            self.send_header(name.decode(), value.decode())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests say what went wrong themselves."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    Passing.asked = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("mode", [None, "standard", "adaptive"])
def test_boto3_asks_again_by_itself(endpoint: str, mode: str | None) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config() if mode is None else Config(retries={"mode": mode}),
    )
    assert len(sqs.list_queues()["QueueUrls"]) == 1
    assert Passing.asked == REFUSED_FIRST + 1
