"""Frames that arrive in pieces, together, and larger than the buffer."""

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable

import pytest

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.frame_link import BUFFER_BYTES, FrameLink
from tests.busy_machine import stretched

Sends = Callable[[asyncio.StreamWriter], Awaitable[None]]


def run(sends: Sends, check: Callable[[FrameLink], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await sends(writer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with asyncio.timeout(stretched(30)):
            link = await FrameLink.open(host, port)
            try:
                await check(link)
            finally:
                link.close()
                server.close()

    asyncio.run(scenario())


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize("seed", range(3))
def test_frames_come_as_they_were_sent(seed: int) -> None:
    choose = random.Random(seed)
    sizes = [choose.choice((1, 100, 70_000, BUFFER_BYTES, 3 * BUFFER_BYTES)) for _ in range(40)]
    frames = [choose.randbytes(size) for size in sizes]

    async def sends(writer: asyncio.StreamWriter) -> None:
        stream = b"".join(map(frame, frames))
        while stream:
            count = choose.choice((1, 3, 1_000, 200_000))
            writer.write(stream[:count])
            stream = stream[count:]
            await writer.drain()

    async def check(link: FrameLink) -> None:
        for expected in frames:
            found = await link.receive()
            # What comes meanwhile does not touch it.
            await asyncio.sleep(0)
            assert found == expected
        with pytest.raises(BrokerUnreachable, match="closed"):
            await link.receive()

    run(sends, check)


def test_what_is_not_kafka_is_told() -> None:
    async def sends(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def check(link: FrameLink) -> None:
        with pytest.raises(BrokerUnreachable, match="not a Kafka port"):
            await link.receive()

    run(sends, check)


def test_more_arrives_while_a_frame_that_fills_the_buffer_waits() -> None:
    """The transport asks for room before anybody had the time to take the frame."""
    link = FrameLink("b:1")
    for body_bytes in (BUFFER_BYTES - 4, 3 * BUFFER_BYTES):
        sent = frame(bytes(body_bytes))
        while sent:
            room = link.get_buffer(-1)
            taken = min(len(room), len(sent))
            room[:taken] = sent[:taken]
            sent = sent[taken:]
            link.buffer_updated(taken)
    assert len(link.get_buffer(-1)) > 0
