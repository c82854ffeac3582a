"""Requests that wait for messages, each as good as the rights that it began with.

Rights are asked for once, at the beginning. Whoever loses one meanwhile must not get what comes
after: its wait is ended by the change itself.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from goqueue.state.security.image import SecurityImage

T = TypeVar("T")


class _Wait:
    __slots__ = ("check", "error", "work")

    def __init__(self, check: Callable[[], object], work: "asyncio.Task[Any]") -> None:
        self.check = check
        self.work = work
        self.error: Exception | None = None


class AccessChanged(Exception):
    """Of a wait that wants to know of any change, to begin anew."""


def any_change() -> None:
    raise AccessChanged


class Waits:
    """Holds as many as doors let in at a time. While security is off nothing is held."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._held: set[_Wait] = set()

    async def hold(self, check: Callable[[], object], work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. `check` asks for its rights, as they are then, after each change;
        what it raises ends the wait."""
        if not self._is_on:
            return await work
        wait = _Wait(check, asyncio.ensure_future(work))
        self._held.add(wait)
        try:
            result: T = await wait.work
            return result
        except asyncio.CancelledError:
            if wait.error is None:
                raise
            raise wait.error from None
        finally:
            self._held.discard(wait)

    def look_again(self, _image: SecurityImage) -> None:
        for wait in tuple(self._held):
            if wait.error is None:
                try:
                    wait.check()
                except Exception as error:  # whatever it is, it is the answer
                    wait.error = error
                    wait.work.cancel()
