"""Connections beyond the limit: they are asked how the broker is, and nothing else."""

from collections.abc import Callable
from typing import Final

from goqueue.doors.http.errors import answer
from goqueue.doors.http.traffic import PROBES, SCRAPE, SCRAPES_IN_FLIGHT_MAX
from goqueue.doors.web.asgi import Application, Message, Receive, Scope, Send
from goqueue.doors.web.sending import respond

# Who has connected and not asked yet. Probes and scrapers are few, and ask at once.
RESERVE_MAX: Final = 64
# Shorter than the time-outs of common probes.
RESERVE_HEAD_SECONDS: Final = 2.0
OVERLOADED: Final = "too many connections are open"
_CLOSE: Final = (b"connection", b"close")


class Reserve:
    """Who holds one of the places, and the application that they see.

    A place is for one request, and is free again when that has come. When all are taken, who has
    waited longest goes: so nobody can keep the places by doing nothing.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        # In the order of coming; each with what hangs up on it.
        self._held: dict[object, Callable[[], None]] = {}
        self._scrapes = 0

    def take(self, holder: object, hang_up: Callable[[], None]) -> None:
        if len(self._held) >= RESERVE_MAX:
            self._held.pop(next(iter(self._held)))()
        self._held[holder] = hang_up

    def leave(self, holder: object) -> None:
        self._held.pop(holder, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
            await send(message)

        path = scope["path"]
        if path in PROBES:
            await self._app(scope, receive, last)
        elif path == SCRAPE and self._scrapes < SCRAPES_IN_FLIGHT_MAX:
            self._scrapes += 1
            try:
                await self._app(scope, receive, last)
            finally:
                self._scrapes -= 1
        else:
            refusal = answer(503, "overloaded", OVERLOADED)
            headers = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
            await respond(last, 503, b"application/json", refusal.body, headers)
