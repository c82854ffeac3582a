"""Waits that end when the right to wait for something ends.

Whoever asked while it was allowed, and waits for messages, must not be given any that come after
its right was taken away. So rights are asked for again, of all who wait, whenever rules change.
Fetches look once more themselves: they are many, and of many topics, and woken in slices.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from goqueue.broker.partitions.waiting import Waiter
from goqueue.model.errors import AccessDenied
from goqueue.pace import Pace

# Raises `AccessDenied`.
Check = Callable[[], object]


class RightsHaveChanged(AccessDenied):
    """No refusal, but whoever waits must ask anew by the rights that there are now."""


def rights_have_changed() -> None:
    """Of a wait that every change of rules ends."""
    raise RightsHaveChanged("rules have changed")


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
        # Fetches, which look at their rights themselves when they are woken.
        self.fetching: dict[Waiter, None] = {}
        # Those of them that have not been woken since rules changed.
        self._to_wake: deque[Waiter] = deque()

    def rules_changed(self) -> None:
        self.changes += 1
        for wait in tuple(self._waiting):
            wait.look_again()
        if not self._to_wake and self.fetching:
            asyncio.get_running_loop().call_soon(self._wake_some)
        self._to_wake = deque(self.fetching)

    def _wake_some(self) -> None:
        pace = Pace()
        while self._to_wake:
            self._to_wake.popleft().wake()
            if pace.is_over and self._to_wake:
                asyncio.get_running_loop().call_soon(self._wake_some)
                return

    @asynccontextmanager
    async def while_allowed(self, check: Check) -> AsyncIterator[None]:
        """What happens within is cancelled once `check` raises, and its error is raised."""
        # Kafka's door begins requests outside of any task, or in one of somebody else; they have
        # their own from where they first wait.
        changes = self.changes
        await asyncio.sleep(0)
        wait = _Wait(check)
        try:
            async with wait.ending:
                self._waiting[wait] = None
                if self.changes != changes:
                    # Just now, when nobody could tell this one.
                    wait.look_again()
                yield
        except TimeoutError:
            if wait.refusal is None:
                raise
            raise wait.refusal from None
        finally:
            self._waiting.pop(wait, None)
