"""Requests that wait: for how long, and until when at most."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from goqueue.doors.web.asgi import Receive
from goqueue.model.errors import ShuttingDown

T = TypeVar("T")

LONG_POLL_MAX_MS: Final = 30_000


class ClientGone(Exception):
    """The client hung up before its request was answered; nobody will read the answer."""


async def or_gone(
    work: Coroutine[Any, Any, T],
    receive: Receive,
    closing: asyncio.Event,
    *,
    unread: Callable[[T], object] | None = None,
) -> T:
    """The result, unless the door closes or the client hangs up while we wait for it.

    `unread` gets a result that nobody gets: it came just when the client hung up, or when its
    log-in ended and this was cancelled for that.
    """
    working = asyncio.ensure_future(work)
    ends = _ends(receive, closing)
    is_read = False
    try:
        await asyncio.wait((working, *ends), return_when=asyncio.FIRST_COMPLETED)
        has_client = not ends[0].done()
        if working.done() and (has_client or unread is None):
            is_read = True
            return working.result()
        if has_client and closing.is_set():
            raise ShuttingDown("the broker is shutting down")
        raise ClientGone("the client hung up")
    finally:
        for task in (working, *ends):
            task.cancel()
        if unread is not None and not is_read:
            hand_back(working, unread)


def hand_back(working: asyncio.Future[T], unread: Callable[[T], object]) -> None:
    """Whatever comes of work that nobody waits for any more."""

    def ended(working: asyncio.Future[T]) -> None:
        if not working.cancelled() and working.exception() is None:
            unread(working.result())

    working.add_done_callback(ended)


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
