"""Thousands of connections that are lost at once do not make one turn of the loop long."""

import asyncio
from collections import Counter

import pytest

from goqueue.doors.http.connection import HttpConnection
from goqueue.doors.lost_connections import ENDED_PER_TURN
from tests.busy_machine import stretched

pytestmark = pytest.mark.anyio

CLIENTS = 3 * ENDED_PER_TURN
# Its body is waited for.
REQUEST = b"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


async def test_requests_of_clients_that_are_gone_end_in_many_turns(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them ended in the turn in which the connections were lost."""
    served: list[HttpConnection] = []
    turn = 0
    turns: Counter[int] = Counter()
    begin, tell = HttpConnection.on_headers_complete, HttpConnection._end

    def begun(connection: HttpConnection) -> None:
        served.append(connection)
        begin(connection)

    def ended(connection: HttpConnection, exc: Exception | None) -> None:
        turns[turn] += 1
        tell(connection, exc)

    monkeypatch.setattr(HttpConnection, "on_headers_complete", begun)
    monkeypatch.setattr(HttpConnection, "_end", ended)
    writers = []
    for _ in range(CLIENTS):
        _, writer = await asyncio.open_connection(*address)
        writer.write(REQUEST)
        writers.append(writer)
    async with asyncio.timeout(stretched(60)):
        while len(served) < CLIENTS:
            await asyncio.sleep(0.01)
        for connection in served:
            connection.hang_up()
        while turns.total() < CLIENTS:
            turn += 1
            await asyncio.sleep(0)
    assert max(turns.values()) <= ENDED_PER_TURN
    for writer in writers:
        writer.close()
