"""Requests that wait: for how long, and until when at most."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from litestar.types import Receive

from goqueue.doors.http.errors import Refusal
from goqueue.model.errors import ShuttingDown

T = TypeVar("T")

LONG_POLL_MAX_MS: Final = 30_000


async def or_gone(reading: Coroutine[Any, Any, T], receive: Receive, closing: asyncio.Event) -> T:
    """The result, unless the door closes or the client hangs up while we wait for it."""
    read = asyncio.ensure_future(reading)
    ends = (asyncio.ensure_future(_hung_up(receive)), asyncio.ensure_future(closing.wait()))
    try:
        await asyncio.wait((read, *ends), return_when=asyncio.FIRST_COMPLETED)
        if read.done():
            return read.result()
        if closing.is_set():
            raise ShuttingDown("the broker is shutting down")
        raise Refusal(400, "disconnected", "the client hung up")
    finally:
        for task in (read, *ends):
            task.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
