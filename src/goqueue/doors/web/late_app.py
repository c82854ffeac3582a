"""What takes long to load and is not needed at once, such as the web framework, is loaded later."""

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.doors.web.asgi import Application, Receive, Scope, Send

# By then the broker has said that it is ready; a request that comes before begins the loading.
BEGIN_AFTER_SECONDS: Final = 0.1


class LateApp:
    """Stands for the application; requests wait for it if they come that early.

    If it cannot be loaded (no memory, no file descriptor), the next request tries again.
    """

    def __init__(self, build: Callable[[], Application]) -> None:
        self._build = build
        self._loading: asyncio.Future[Application] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._app: Application | None = None

    def begin_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(BEGIN_AFTER_SECONDS, self._begin)

    async def stop(self) -> None:
        """The thread that loads cannot be stopped, only waited for."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            # Shielded: one who hangs up must not end it for the others.
            self._app = await asyncio.shield(self._begin())
        await self._app(scope, receive, send)

    def _begin(self) -> "asyncio.Future[Application]":
        loading = self._loading
        if loading is None or (loading.done() and loading.exception() is not None):
            # In a thread: messages of other doors go on meanwhile.
            loading = asyncio.get_running_loop().run_in_executor(None, self._build)
            self._loading = loading
        return loading
