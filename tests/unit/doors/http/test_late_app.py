"""The application that is loaded after the start: once, for all who wait, and again if it fails."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from goqueue.doors.web.asgi import Application, Message, Receive, Scope, Send
from goqueue.doors.web.late_app import LateApp

SCOPE: Scope = {"type": "http"}


async def receive() -> Message:
    return {}


async def send(_message: Message) -> None: ...


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


class Built:
    """An application that counts its requests, and how often it was built."""

    def __init__(self, failures: int = 0) -> None:
        self.may_end = threading.Event()
        self.may_end.set()
        self.builds = 0
        self.requests = 0
        self._failures = failures

    def build(self) -> Application:
        self.may_end.wait()
        self.builds += 1
        if self.builds <= self._failures:
            raise OSError("too many open files")
        return self._answer

    async def _answer(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        self.requests += 1


def test_all_wait_for_one_load_and_one_who_hangs_up_does_not_end_it() -> None:
    async def scenario() -> None:
        built = Built()
        built.may_end.clear()
        app = LateApp(built.build)
        first, *others = [asyncio.create_task(app(SCOPE, receive, send)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        built.may_end.set()
        await asyncio.gather(*others)
        assert (built.builds, built.requests) == (1, 2)
        await app.stop()

    run(scenario)


def test_what_could_not_be_loaded_is_loaded_by_the_next_request() -> None:
    async def scenario() -> None:
        built = Built(failures=1)
        app = LateApp(built.build)
        with pytest.raises(OSError, match="too many open files"):
            await app(SCOPE, receive, send)
        await app(SCOPE, receive, send)
        assert built.requests == 1
        await app.stop()

    run(scenario)
