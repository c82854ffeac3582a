"""Clients that are slow, never end, or hang up in the middle: only they notice."""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from goqueue.doors.http import connection as http_connection
from goqueue.doors.http import reserve, traffic, unsent
from goqueue.doors.web import bodies
from goqueue.service.queues.queues import QueueService
from tests.unit.doors.http.test_bad_requests import last_error, raw

pytestmark = pytest.mark.anyio

Address = tuple[str, int]
HEAD = b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
PROBES = ("/healthz", "/readyz", "/metrics")


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def ask(address: Address, path: str) -> bytes:
    return await raw(
        address, b"GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path.encode()
    )


@pytest.fixture
async def held() -> AsyncIterator[list[asyncio.StreamWriter]]:
    writers: list[asyncio.StreamWriter] = []
    yield writers
    for writer in writers:
        writer.close()


async def test_a_body_of_drops_is_cut_off(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "BODY_SILENCE_SECONDS", 0.4)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HEAD + b"content-length: 100000\r\n\r\n")

    async def drip() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    try:
        async with asyncio.timeout(60):
            assert await reader.read() == b""
    except ConnectionResetError:
        pass
    finally:
        dripping.cancel()
        writer.close()


async def test_a_body_at_a_fair_pace_is_read_for_as_long_as_it_takes(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "BODY_SILENCE_SECONDS", 0.3)

    async def paced() -> AsyncIterator[bytes]:
        yield b'{"value": "'
        for _ in range(20):
            yield b"x" * 1_000
            await asyncio.sleep(0.05)
        yield b'"}'

    answer = await client.post(
        "/topics/t/messages", content=paced(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200


async def test_probes_are_answered_when_slow_bodies_hold_all_connections(
    address: Address, monkeypatch: pytest.MonkeyPatch, held: list[asyncio.StreamWriter]
) -> None:
    monkeypatch.setattr(http_connection, "CONNECTIONS_MAX", 20)
    for _ in range(20):
        _, writer = await asyncio.open_connection(*address)
        writer.write(HEAD + b"content-length: 100000\r\n\r\n{")
        held.append(writer)
    # More than the reserve holds, and they never ask for anything.
    for _ in range(reserve.RESERVE_MAX + 10):
        _, writer = await asyncio.open_connection(*address)
        held.append(writer)

    for path in PROBES:
        assert (await ask(address, path)).startswith(b"HTTP/1.1 200 "), path
    refused = await ask(address, "/topics")
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert last_error(refused) == "overloaded"


async def test_probes_are_answered_when_requests_under_way_are_at_their_limit(
    address: Address, monkeypatch: pytest.MonkeyPatch, held: list[asyncio.StreamWriter]
) -> None:
    monkeypatch.setattr(traffic, "REQUESTS_IN_FLIGHT_MAX", 3)
    for _ in range(3):
        _, writer = await asyncio.open_connection(*address)
        writer.write(HEAD + b"content-length: 100000\r\n\r\n{")
        held.append(writer)

    async with asyncio.timeout(60):
        while not (await ask(address, "/topics")).startswith(b"HTTP/1.1 503 "):
            await asyncio.sleep(0.01)
    for path in PROBES:
        assert (await ask(address, path)).startswith(b"HTTP/1.1 200 "), path


class TestEndlessBody:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"http.request.max.bytes": "100000"}

    @pytest.mark.parametrize("path", [b"/topics", b"/nowhere"])
    async def test_it_is_not_read_on_for_ever(
        self, address: Address, monkeypatch: pytest.MonkeyPatch, path: bytes
    ) -> None:
        monkeypatch.setattr(bodies, "LINGER_SECONDS", 0.05)
        monkeypatch.setattr(http_connection, "LINGER_SECONDS", 0.2)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(
            b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"

        async def pour() -> None:
            while True:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(0.001)

        pouring = asyncio.create_task(pour())
        async with asyncio.timeout(60):
            # The broker hangs up, whatever we do.
            done, _ = await asyncio.wait([pouring])
        # uvloop's word for writing to what was closed meanwhile is RuntimeError.
        assert isinstance(done.pop().exception(), ConnectionError | RuntimeError)
        writer.close()
        del reader

    async def test_its_end_may_come_after_the_answer(self, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(
            HEAD.replace(b"application/json", b"text/plain") + b"content-length: 3\r\n\r\n"
        )
        async with asyncio.timeout(60):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 415 ")
            writer.write(b"{} GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200 " in await reader.readuntil(b"200 ")
        writer.close()


async def test_an_answer_that_nobody_reads_is_dropped(
    address: Address, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "READER_SILENCE_SECONDS", 0.3)
    many = {"messages": [{"value": "x" * 500_000, "partition": 0}]}
    for _ in range(8):
        (await client.post("/topics/large/messages", json=many)).raise_for_status()
    peer = socket.create_connection(address)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    path = b"/topics/large/partitions/0/messages"
    peer.sendall(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path * 4)
    async with asyncio.timeout(60):
        while "goqueue_http_connections 1.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.05)
    peer.close()
    whole = await client.get("/topics/large/partitions/0/messages")
    assert len(whole.json()["messages"]) > 1


async def test_answers_that_nobody_reads_are_bounded_together(
    address: Address, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three answers of 4 MB. The kernel takes most of each, and the whole is held until the rest
    # is sent.
    monkeypatch.setattr(unsent, "UNSENT_MAX_BYTES", 14_000_000)
    monkeypatch.setattr(http_connection, "READER_SILENCE_SECONDS", 600)
    large = {"messages": [{"value": "x" * 500_000, "partition": 0}]}
    for _ in range(8):
        (await client.post("/topics/large/messages", json=large)).raise_for_status()
    peers = []
    for _ in range(12):
        peer = socket.create_connection(address)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        path = b"/topics/large/partitions/0/messages"
        peer.sendall(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path * 4)
        peers.append(peer)
    async with asyncio.timeout(60):
        while True:
            told = (await client.get("/metrics")).text
            if any(f"goqueue_http_connections {left}.0" in told for left in (3, 4, 5)):
                break
            await asyncio.sleep(0.05)
    for peer in peers:
        peer.close()
    assert (await client.get("/healthz")).status_code == 200


async def test_empty_lines_do_not_keep_a_connection(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.readuntil(b"}")
        writer.write(b"\r\n")
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("first", [b"/groups/g/receive", b"/healthz"])
async def test_resets_while_pipelining_leave_no_traceback(
    address: Address,
    client: httpx.AsyncClient,
    caplog: pytest.LogCaptureFixture,
    first: bytes,
) -> None:
    body = b'{"topic": "jobs", "timeout": 30000}'
    waiting = (
        b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (first, len(body), body)
    )
    await client.post("/topics", json={"name": "jobs"})
    with caplog.at_level(logging.DEBUG):
        for round_number in range(30):
            peer = socket.create_connection(address)
            # Linger zero: closing resets.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sendall(waiting * (1 + round_number % 7) + HEAD + b"content-length: 70000\r\n\r\n")
            peer.sendall(b"x" * (round_number * 1_000))
            await asyncio.sleep(0.002 * (round_number % 5))
            peer.close()
        # A long poll whose client is gone ends by itself: nothing is left under way.
        async with asyncio.timeout(60):
            while "goqueue_http_requests_in_flight 1.0" not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.05)
    bad = [each for each in caplog.records if each.levelno >= logging.ERROR or each.exc_info]
    assert not bad, bad[0].getMessage()


async def test_requests_pipelined_without_end_are_cut_off(
    address: Address, client: httpx.AsyncClient
) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    answered = await raw(address, request * (http_connection.PIPELINED_MAX * 10))
    assert answered.count(b"HTTP/1.1 200") <= http_connection.PIPELINED_MAX + 1
    assert (await client.get("/healthz")).status_code == 200


async def test_what_is_only_asked_for_ends_with_who_asked(
    address: Address, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended, done = 0, 0, asyncio.Event()

    async def describe(*_: object) -> list[object]:
        nonlocal begun, ended
        begun += 1
        try:
            await done.wait()
        finally:
            ended += 1
        return []

    monkeypatch.setattr(QueueService, "describe_all", describe)
    request = b"GET /reliability/stats HTTP/1.1\r\nhost: localhost\r\n\r\n"
    writers = []
    for count in range(1, 4):
        _, writer = await asyncio.open_connection(*address)
        writers.append(writer)
        writer.write(request)
        await eventually(lambda wanted=count: begun == wanted)  # type: ignore[misc]
    for writer in writers[:2]:
        writer.close()
    await eventually(lambda: ended == 2)
    done.set()
    await eventually(lambda: ended == 3)
    writers[2].close()
    assert "Exception in ASGI" not in caplog.text
