"""The client of the HTTP API: several addresses, and which failures lead to the next one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.model.errors import InvalidRequest
from goqueue.testing.ports import free_port

Handler = Callable[[BaseHTTPRequestHandler], None]


def answer(body: bytes, status: int = 200) -> Handler:
    def handle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return handle


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


class Servers:
    """Each answers in its own way; `asked` are the paths that came, with the server's number."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.asked: list[tuple[int, str]] = []

    def start(self, handle: Handler) -> str:
        number, asked = len(self.asked), self.asked

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((number, self.path))
                handle(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Tests say what went wrong themselves."""

        server = self._stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Answering))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def nobody() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    "ask", [lambda api: api.get("a"), lambda api: api.post("a", body={})], ids=["get", "post"]
)
def test_where_nobody_listens_the_next_is_asked(
    servers: Servers, ask: Callable[[HttpApi], Any]
) -> None:
    api = HttpApi(f"{nobody()}, {servers.start(answer(b'[1]'))}/")
    assert ask(api) == [1]
    assert ask(api.within("part")) == [1]
    assert [path for _, path in servers.asked] == ["/a", "/part/a"]


def test_what_may_have_been_done_is_not_sent_to_another(servers: Servers) -> None:
    urls = f"{servers.start(hang_up)},{servers.start(answer(b'[1]'))}"
    with pytest.raises(HttpUnreachable):
        HttpApi(urls).post("a", body={})
    assert len(servers.asked) == 1
    assert HttpApi(urls).get("a") == [1]


def test_a_refusal_is_the_answer(servers: Servers) -> None:
    body = b'{"error": {"code": "unknown_topic", "message": "there is no topic"}}'
    urls = f"{servers.start(answer(body, 404))},{servers.start(answer(b'[1]'))}"
    with pytest.raises(HttpRefused, match="there is no topic") as caught:
        HttpApi(urls).get("a")
    assert (caught.value.status, caught.value.reason) == (404, "unknown_topic")


def test_if_nobody_answers_the_first_is_named() -> None:
    first = nobody()
    with pytest.raises(HttpUnreachable, match=f"no broker answers at {first}"):
        HttpApi(f"{first},{nobody()}").get("a")


def no_http(said: bytes) -> Handler:
    def handle(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(said)
        request.close_connection = True

    return handle


@pytest.mark.parametrize(
    ("said", "told"),
    [(b"\x15\x03\x03\x00\x02\x02\x46", "write https://"), (b"\x1b[2J\r\n", r"\\x1b\[2J")],
)
def test_who_speaks_no_http_is_not_repeated_as_it_is(
    servers: Servers, said: bytes, told: str
) -> None:
    with pytest.raises(HttpUnreachable, match=told) as refused:
        HttpApi(servers.start(no_http(said))).get("a")
    assert str(refused.value).isprintable()


def test_an_empty_name_is_not_another_path(servers: Servers) -> None:
    """`DELETE /users/` would be about all of them."""
    api = HttpApi(servers.start(answer(b"[1]")))
    with pytest.raises(InvalidRequest, match="empty"):
        api.delete("users", "")
    assert not servers.asked
