"""Waits that end when the right to wait for something ends.

Whoever asked while it was allowed, and waits for messages, must not be given any that come after
its right was taken away. So rights are asked for again, of all who wait, whenever rules change.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from goqueue.model.errors import AccessDenied

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

    def rules_changed(self) -> None:
        self.changes += 1
        for wait in tuple(self._waiting):
            wait.look_again()

    @asynccontextmanager
    async def while_allowed(self, check: Check) -> AsyncIterator[None]:
        """What happens within is cancelled once `check` raises, and its error is raised."""
        wait = _Wait(check)
        try:
            async with wait.ending:
                self._waiting[wait] = None
                yield
        except TimeoutError:
            if wait.refusal is None:
                raise
            raise wait.refusal from None
        finally:
            self._waiting.pop(wait, None)
