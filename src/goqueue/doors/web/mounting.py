"""Other HTTP protocols on the same port: asked first, answered without the web framework."""

from typing import Protocol

from goqueue.doors.web.asgi import Receive, Scope, Send
from goqueue.doors.web.site_guard import Unwelcome
from goqueue.model.caller import Door


class Mount(Protocol):
    @property
    def name(self) -> str:
        """For the metrics, which count its requests as one route."""

    @property
    def door(self) -> Door:
        """What its callers come through."""

    @property
    def logs_in(self) -> bool:
        """Whether it finds out by itself who asks, while security is on."""

    def takes(self, scope: Scope) -> bool:
        """Whether a request is for it; called for every request, so it must be quick."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def refuse(self, unwelcome: Unwelcome, scope: Scope, send: Send, /) -> None:
        """Answer one of its requests that was not let in, or that the closing door ends."""

    def close(self) -> None:
        """The door closes: answer what waits."""
