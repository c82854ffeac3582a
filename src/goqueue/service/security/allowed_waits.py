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
        # Of those who look at what they give themselves.
        self._fetching: dict[Callable[[], None], None] = {}
        # Those of them that have not been asked since rules changed.
        self._to_ask: deque[Callable[[], None]] = deque()

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
            look_again = self._to_ask.popleft()
            if look_again in self._fetching:
                look_again()
            if pace.is_over and self._to_ask:
                asyncio.get_running_loop().call_soon(self._ask_some)
                return

    @asynccontextmanager
    async def while_allowed(self, check: Check) -> AsyncIterator[None]:
        """What happens within is cancelled once `check` raises, and its error is raised."""
        # Kafka's door begins requests outside of any task, or in one of somebody else; they have
        # their own from where they first wait.
        await asyncio.sleep(0)
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

    def begin(self, look_again: Callable[[], None]) -> None:
        """`look_again` is called some moments after each change of rules, until `end`: for waits
        outside of any task, and of those who look at what they give themselves."""
        self._fetching[look_again] = None

    def end(self, look_again: Callable[[], None]) -> None:
        del self._fetching[look_again]
