"""Requests that are under way, each as good as its log-in: who is removed meanwhile is refused, and
so is who waits for longer than its log-in lasts."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from goqueue.model.security.web_logins import WebLogin

# While there are log-ins that end by themselves: clocks that are set are noticed.
LOOK_AGAIN_MS: Final = 500
# Where the last look came a moment too soon.
LOOK_SOONEST_MS: Final = 10


class Standing:
    """Holds what the door lets in at a time (REQUESTS_IN_FLIGHT_MAX), and no more."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._logins: dict[asyncio.Task[Any], WebLogin] = {}
        self._revoked: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # When it looks at those that end by themselves.
        self._looks_ms = 0

    def hold(self, login: WebLogin) -> None:
        """The running task answers a request of this log-in."""
        task = asyncio.current_task()
        assert task is not None
        self._logins[task] = login
        if login.ends_ms is not None and (self._timer is None or login.ends_ms < self._looks_ms):
            self._look_at(login.ends_ms)

    def release(self) -> None:
        """The running task has answered."""
        task = asyncio.current_task()
        assert task is not None
        self._logins.pop(task, None)
        self._revoked.discard(task)

    @property
    def is_revoked(self) -> bool:
        """Whether the running task was cancelled for that."""
        return asyncio.current_task() in self._revoked

    def _look_at(self, ends_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._clock_ms()
        wait_ms = min(max(ends_ms - now_ms, LOOK_SOONEST_MS), LOOK_AGAIN_MS)
        self._looks_ms = now_ms + wait_ms
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock_ms()
        if any(each <= now_ms for each in self._ends_ms()):
            self.look_again()
        ends_ms = min(self._ends_ms(), default=None)
        if ends_ms is not None:
            self._look_at(ends_ms)

    def _ends_ms(self) -> list[int]:
        return [each.ends_ms for each in self._logins.values() if each.ends_ms is not None]

    def look_again(self) -> None:
        """Something has changed. Who ends its own log-in by a request has that one answered."""
        asking = asyncio.current_task()
        ended = [
            task
            for task, login in self._logins.items()
            if task is not asking and not login.is_current()
        ]
        for task in ended:
            del self._logins[task]
            self._revoked.add(task)
            task.cancel()
