"""Waiting ends with the result, the client's leaving or the door's closing."""

import asyncio
from typing import Any

import pytest

from goqueue.doors.web.long_poll import ClientGone, gone, or_gone
from goqueue.model.errors import ShuttingDown

pytestmark = pytest.mark.anyio


class Client:
    """Says nothing until it hangs up; what comes before that is not the end."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()
        self._has_sent = False

    async def __call__(self) -> Any:
        if not self._has_sent:
            self._has_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}


async def for_ever(ended: asyncio.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


async def test_the_result_comes_first() -> None:
    async def work() -> int:
        return 3

    assert await or_gone(work(), Client(), asyncio.Event()) == 3


async def test_work_fails_as_it_would_alone() -> None:
    async def work() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await or_gone(work(), Client(), asyncio.Event())


async def test_a_client_that_leaves_ends_the_work() -> None:
    client, ended = Client(), asyncio.Event()
    waiting = asyncio.create_task(or_gone(for_ever(ended), client, asyncio.Event()))
    await asyncio.sleep(0)
    client.hung_up.set()
    async with asyncio.timeout(60):
        with pytest.raises(ClientGone):
            await waiting
        await ended.wait()


async def test_a_door_that_closes_ends_the_work() -> None:
    closing, ended = asyncio.Event(), asyncio.Event()
    waiting = asyncio.create_task(or_gone(for_ever(ended), Client(), closing))
    await asyncio.sleep(0)
    closing.set()
    async with asyncio.timeout(60):
        with pytest.raises(ShuttingDown):
            await waiting
        await ended.wait()


@pytest.mark.parametrize("by_client", [True, False])
async def test_a_result_that_comes_just_when_nobody_waits_for_it_is_handed_back(
    by_client: bool,
) -> None:
    async def work() -> int:
        await go_on.wait()
        return 3

    client, go_on, unread = Client(), asyncio.Event(), list[int]()
    polling = or_gone(work(), client, asyncio.Event(), unread=unread.append)
    waiting = asyncio.create_task(polling)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go_on.set()
    if by_client:
        client.hung_up.set()
    else:
        # Both are ready to go on: the work has its result, and its request is cancelled.
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises((ClientGone, asyncio.CancelledError)):
        await waiting
    await asyncio.sleep(0)
    assert unread == [3]


async def test_gone_ends_by_either() -> None:
    for ends_by_client in (True, False):
        client, closing = Client(), asyncio.Event()
        waiting = asyncio.create_task(gone(client, closing))
        await asyncio.sleep(0)
        assert not waiting.done()
        (client.hung_up if ends_by_client else closing).set()
        async with asyncio.timeout(60):
            await waiting
