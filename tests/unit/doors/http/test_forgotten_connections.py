"""What is left of a connection when its client has gone: nothing, also without the collector."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from goqueue.doors.http.connection import HttpConnection
from tests.busy_machine import stretched

pytestmark = pytest.mark.anyio

REQUESTS = {
    "an answer": b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a request": b"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    "a refusal": b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "nothing": b"",
}


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("sent", REQUESTS)
async def test_a_lost_connection_is_freed(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    made: list[weakref.ref[HttpConnection]] = []
    begin = HttpConnection.connection_made

    def note(connection: HttpConnection, transport: asyncio.Transport) -> None:
        made.append(weakref.ref(connection))
        begin(connection, transport)

    monkeypatch.setattr(HttpConnection, "connection_made", note)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(REQUESTS[sent])
    if sent in ("an answer", "a refusal"):
        await reader.readuntil(b"\r\n\r\n")
    writer.close()
    async with asyncio.timeout(stretched(20)):
        while not made or made[0]() is not None:
            await asyncio.sleep(0.01)
