"""Waits that end when the right to wait for something ends.

Whoever asked while it was allowed, and waits for messages, must not be given any that come after
its right was taken away. So rights are asked for again, of all who wait, whenever rules change.
Those who look at what they give once more themselves are asked in slices: fetches are many, and of
many topics.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from goqueue.model.errors import AccessDenied
from goqueue.pace import Pace

# Raises `AccessDenied`.
Check = Callable[[], object]


class _Wait:
    __slots__ = ("_check", "ending", "refusal")

    def __init__(self, check: Check) -> None:
        self._check = check
        self.ending = asyncio.timeout(None)
        self.refusal: AccessDenied | None = None

    def look_again(self) -> None:
        try:
            self._check()
        except AccessDenied as error:
            if self.refusal is None:
                self.refusal = error
                self.ending.reschedule(asyncio.get_running_loop().time())


class AllowedWaits:
    """As many as there are requests that wait, which doors bound."""

    def __init__(self) -> None:
        # How often rules have changed.
        self.changes = 0
        self._waiting: dict[_Wait, None] = {}
        # Who looks once more itself.
        self._fetching: dict[_Wait, None] = {}
        # Those of them that have not been asked since rules changed.
        self._to_ask: deque[_Wait] = deque()

    def rules_changed(self) -> None:
        self.changes += 1
        for wait in tuple(self._waiting):
            wait.look_again()
        if not self._to_ask and self._fetching:
            asyncio.get_running_loop().call_soon(self._ask_some)
        self._to_ask = deque(self._fetching)

    def _ask_some(self) -> None:
        pace = Pace()
        while self._to_ask:
            wait = self._to_ask.popleft()
            if wait in self._fetching:
                wait.look_again()
            if pace.is_over and self._to_ask:
                asyncio.get_running_loop().call_soon(self._ask_some)
                return

    @asynccontextmanager
    async def while_allowed(self, check: Check, *, since: int | None = None) -> AsyncIterator[None]:
        """What happens within is cancelled once `check` raises, and its error is raised.

        Who was allowed `since` so many changes, and looks at what it gives once more itself, may be
        told some milliseconds after rules changed.
        """
        waiting = self._waiting if since is None else self._fetching
        wait = _Wait(check)
        try:
            async with wait.ending:
                waiting[wait] = None
                if since is not None and since != self.changes:
                    wait.look_again()
                yield
        except TimeoutError:
            if wait.refusal is None:
                raise
            raise wait.refusal from None
        finally:
            waiting.pop(wait, None)
