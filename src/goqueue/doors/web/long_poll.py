"""Requests that wait: for how long, and until when at most."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from goqueue.doors.web.asgi import Receive
from goqueue.model.errors import ShuttingDown

T = TypeVar("T")

LONG_POLL_MAX_MS: Final = 30_000


class ClientGone(Exception):
    """The client hung up before its request was answered; nobody will read the answer."""


async def or_gone(work: Coroutine[Any, Any, T], receive: Receive, closing: asyncio.Event) -> T:
    """The result, unless the door closes or the client hangs up while we wait for it."""
    working = asyncio.ensure_future(work)
    ends = _ends(receive, closing)
    try:
        await asyncio.wait((working, *ends), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if closing.is_set():
            raise ShuttingDown("the broker is shutting down")
        raise ClientGone("the client hung up")
    finally:
        for task in (working, *ends):
            task.cancel()


async def gone(receive: Receive, closing: asyncio.Event) -> None:
    """Until the door closes or the client hangs up; the request's body must have been read."""
    ends = _ends(receive, closing)
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ends:
            task.cancel()


def _ends(receive: Receive, closing: asyncio.Event) -> Sequence[asyncio.Future[Any]]:
    return asyncio.ensure_future(_hung_up(receive)), asyncio.ensure_future(closing.wait())


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
