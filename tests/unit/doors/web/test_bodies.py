"""Bodies that come in pieces, are too large, too many at once, or never end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.doors.web import bodies
from goqueue.doors.web.bodies import BodyFault, BodyReader, BodyRefused

pytestmark = pytest.mark.anyio

GONE = {"type": "http.disconnect"}


class Sender:
    """Hands out pieces of a body; `None` is a client that hangs up."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.left: list[bytes | None] = list(pieces)

    async def __call__(self) -> Any:
        piece = self.left.pop(0)
        if piece is None:
            return GONE
        return {"type": "http.request", "body": piece, "more_body": bool(self.left)}


async def read(
    sender: Sender, *, length: int = 0, headers: Sequence[tuple[bytes, bytes]] = ()
) -> bytes:
    return await BodyReader(max_bytes=10, held_max_bytes=15).read(headers, length, sender)


async def fault(sender: Sender, **request: Any) -> BodyFault:
    with pytest.raises(BodyRefused) as raised:
        await read(sender, **request)
    return raised.value.fault


async def test_a_body_is_read_whole() -> None:
    assert await read(Sender(b"0123456789")) == b"0123456789"
    assert await read(Sender(b"01", b"", b"23")) == b"0123"


async def test_one_that_is_too_large_is_read_to_its_end_and_refused() -> None:
    for sender, length in (
        (Sender(b"0123456789a"), 0),
        (Sender(b"0123456789", b"a", b"b"), 0),
        (Sender(b"01234", b"56789", b"a"), 11),
    ):
        assert await fault(sender, length=length) is BodyFault.TOO_LARGE
        assert not sender.left


async def test_who_waits_for_a_continue_is_told_at_once() -> None:
    sender = Sender(b"0123456789a")
    expecting = [(b"expect", b"100-continue")]
    assert await fault(sender, length=11, headers=expecting) is BodyFault.TOO_LARGE
    assert sender.left


async def test_a_slow_client_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINGER_SECONDS", 0.01)

    async def silent() -> Any:
        await asyncio.Event().wait()

    reader = BodyReader(max_bytes=10, held_max_bytes=15)
    async with asyncio.timeout(60):
        with pytest.raises(BodyRefused):
            await reader.read((), 11, silent)


async def test_a_client_that_hangs_up() -> None:
    assert await fault(Sender(None)) is BodyFault.CUT_SHORT
    assert await fault(Sender(b"01", None)) is BodyFault.CUT_SHORT
    assert await fault(Sender(b"01", None), length=11) is BodyFault.CUT_SHORT


async def test_unfinished_bodies_are_bounded_together() -> None:
    reader = BodyReader(max_bytes=10, held_max_bytes=15)
    begun, is_over = asyncio.Event(), asyncio.Event()

    async def slow() -> Any:
        if not begun.is_set():
            begun.set()
            return {"type": "http.request", "body": b"01234567", "more_body": True}
        await is_over.wait()
        return {"type": "http.request", "body": b"89", "more_body": False}

    first = asyncio.create_task(reader.read((), 0, slow))
    await begun.wait()
    with pytest.raises(BodyRefused) as raised:
        await reader.read((), 0, Sender(b"01234567", b"89"))
    assert raised.value.fault is BodyFault.TOO_MUCH_AT_ONCE
    # What comes in one piece holds nobody up.
    assert await reader.read((), 0, Sender(b"01234567")) == b"01234567"
    is_over.set()
    assert await first == b"0123456789"
    assert await reader.read((), 0, Sender(b"01234567", b"89")) == b"0123456789"
