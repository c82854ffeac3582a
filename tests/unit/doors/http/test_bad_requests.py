"""What is not HTTP, not JSON, too large, too slow or for nobody: always a 4xx of one form."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import connection as http_connection
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "unknown_path"),
        ("GET", "/topics/a/b/c", 404, "unknown_path"),
        ("GET", "/topics/..%2Fetc", 404, "unknown_path"),
        ("POST", "/topics/a%2Fb/messages", 404, "unknown_path"),
        ("POST", "/topics//messages", 405, "method_not_allowed"),
        ("GET", "/docs/anything", 404, "unknown_path"),
        ("PUT", "/topics", 405, "method_not_allowed"),
        ("GET", "/topics/t/messages", 405, "method_not_allowed"),
        ("BREW", "/topics", 400, "invalid_http"),
        ("GET", "/topics?verbose=1", 400, "invalid_request"),
        ("GET", "/topics/%00", 400, "invalid_request"),
        ("GET", "/topics/%FF%FE", 400, "invalid_request"),
        ("GET", "/topics/" + "x" * 300, 400, "invalid_request"),
        ("GET", "/healthz?a=%FF", 400, "invalid_request"),
    ],
)
async def test_paths_and_methods(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    assert error_code(await client.request(method, path), status) == code


async def test_405_names_what_is_allowed(client: httpx.AsyncClient) -> None:
    refused = await client.put("/topics/t")

    allowed = {method.strip() for method in refused.headers["allow"].split(",")}
    assert allowed == {"GET", "PATCH", "DELETE", "OPTIONS"}
    options = await client.options("/topics/t")
    assert {method.strip() for method in options.headers["allow"].split(",")} == allowed


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "t"',
        b'{"name": "t",}',
        b"{name: 't'}",
        b'{"name": "\xff"}',
        b'{"name": "t\x00"}',
        b'{"name": "\\ud800"}',
        b'\xef\xbb\xbf{"name": "t"}',
        b'{"name": "t"} x',
        b'{"config": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
        b"[" * 1_000_000,
    ],
)
async def test_bodies_that_are_not_json(
    client: httpx.AsyncClient, broker: Node, body: bytes
) -> None:
    for path in ("/topics", "/topics/t/messages"):
        refused = await client.post(path, content=body, headers=JSON)
        assert error_code(refused, 400) in ("invalid_json", "invalid_request")
    assert not broker.image.topics


async def test_nested_values_are_kept_or_refused_but_never_fail(client: httpx.AsyncClient) -> None:
    for depth in (10, 500, 1_000, 5_000, 100_000):
        body = b'{"value": ' + b"[" * depth + b"]" * depth + b', "partition": 0}'
        answered = await client.post("/topics/deep/messages", content=body, headers=JSON)
        assert answered.status_code in (200, 400)
        read = await client.get("/topics/deep/partitions/0/messages?encoding=json")
        assert read.status_code == 200


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"],
)
async def test_other_content_types(client: httpx.AsyncClient, content_type: str) -> None:
    for path in ("/topics", "/topics/t/messages"):
        refused = await client.post(
            path, content=b'{"name": "t"}', headers={"content-type": content_type}
        )
        assert error_code(refused, 415) == "unsupported_media_type"
        assert "application/json" in error_message(refused)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; charset=utf-8", "application/vnd.goqueue+json"],
)
async def test_json_content_types(client: httpx.AsyncClient, content_type: str) -> None:
    answered = await client.post(
        "/topics/t/messages", content=b'{"value": 1}', headers={"content-type": content_type}
    )
    assert answered.status_code == 200


@pytest.mark.parametrize("headers", [{}, JSON])
async def test_no_body(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    for path in ("/topics", "/topics/t/messages"):
        refused = await client.post(path, content=b"", headers=headers)
        assert error_code(refused, 400) in ("invalid_request", "invalid_json")


class TestBodyLimit:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"http.request.max.bytes": "100000"}

    @pytest.mark.parametrize("path", ["/topics", "/topics/t/messages"])
    @pytest.mark.parametrize("size", [100_001, 5_000_000])
    async def test_announced(self, client: httpx.AsyncClient, path: str, size: int) -> None:
        refused = await client.post(path, content=b"x" * size, headers=JSON)

        assert error_code(refused, 413) == "request_too_large"
        assert "http.request.max.bytes = 100000" in error_message(refused)
        assert (await client.get("/healthz")).status_code == 200

    async def test_chunked(self, client: httpx.AsyncClient) -> None:
        async def endless() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 10_000

        refused = await client.post("/topics/t/messages", content=endless(), headers=JSON)

        assert error_code(refused, 413) == "request_too_large"

    async def test_just_within(self, client: httpx.AsyncClient) -> None:
        frame = b'{"value": "%s"}'
        body = frame % (b"x" * (100_000 - len(frame) + 2))
        assert len(body) == 100_000

        async def in_pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 7_000):
                yield body[start : start + 7_000]

        for content in (body, in_pieces()):
            answered = await client.post("/topics/t/messages", content=content, headers=JSON)
            assert answered.status_code == 200

    async def test_expecting_client_is_told_before_it_sends(self, address: tuple[str, int]) -> None:
        answer = await raw(
            address,
            b"POST /topics/t/messages HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
            b"content-type: application/json\r\ncontent-length: 200000\r\n\r\n",
            ends=False,
        )
        assert answer.startswith(b"HTTP/1.1 413 ")


async def raw(address: tuple[str, int], sent: bytes, *, ends: bool = True) -> bytes:
    """What comes back for bytes on a fresh connection: all of it, or its first piece."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(sent)
        async with asyncio.timeout(60):
            return await (reader.read() if ends else reader.read(65_536))
    finally:
        writer.close()


def last_error(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return str(json.loads(body)["error"]["code"])


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken header\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /topics HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello",
    ],
)
async def test_not_http(address: tuple[str, int], client: httpx.AsyncClient, sent: bytes) -> None:
    answer = await raw(address, sent)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert last_error(answer) == "invalid_http"
    assert (await client.get("/healthz")).status_code == 200


async def test_endless_headers(address: tuple[str, int]) -> None:
    answer = await raw(address, b"GET / HTTP/1.1\r\nx: " + b"y" * 66_000)

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert last_error(answer) == "headers_too_large"


async def test_slow_headers(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.05)

    assert await raw(address, b"") == b""
    answer = await raw(address, b"GET / HTTP/1.1\r\nhost")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert last_error(answer) == "header_timeout"


async def test_slow_body(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BODY_SILENCE_SECONDS", 0.05)

    answer = await raw(
        address,
        b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 10\r\n\r\n{",
    )
    assert answer == b""


async def test_too_many_connections(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "CONNECTIONS_MAX", 1)
    _, held = await asyncio.open_connection(*address)

    answer = await raw(address, b"")

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert last_error(answer) == "overloaded"
    held.close()


async def test_pipelined_requests_are_answered_in_order(address: tuple[str, int]) -> None:
    request = b"GET %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n"
    answer = await raw(
        address,
        request % (b"/healthz", b"")
        + request % (b"/nowhere", b"")
        + request % (b"/healthz", b"connection: close\r\n"),
    )

    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]
