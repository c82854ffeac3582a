"""Requests that are under way, each as good as its log-in: who is removed meanwhile is refused."""

import asyncio
from typing import Any

from goqueue.model.security.web_logins import WebLogin


class Standing:
    """Holds what the door lets in at a time (REQUESTS_IN_FLIGHT_MAX), and no more."""

    def __init__(self) -> None:
        self._logins: dict[asyncio.Task[Any], WebLogin] = {}
        self._revoked: set[asyncio.Task[Any]] = set()

    def hold(self, login: WebLogin) -> None:
        """The running task answers a request of this log-in."""
        task = asyncio.current_task()
        assert task is not None
        self._logins[task] = login

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
