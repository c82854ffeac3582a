"""What connections do between two looks at their sockets: one step for all of them, then the next.

Requests that arrived together are read together, carried out together and answered together. The
interpreter runs a step that it ran just before in about two thirds of the time. A turn in which the
requests take long to read ends there; the connections behind have the next one.
"""

import asyncio
import logging
from operator import methodcaller
from time import perf_counter
from typing import Final, Protocol

log = logging.getLogger(__name__)


class TakesTurns(Protocol):
    def read_requests(self) -> None: ...
    def start_requests(self) -> None: ...
    def send_answers(self) -> None: ...
    def abort(self) -> None: ...


# Reading is about a quarter of the work.
READING_MAX_SECONDS: Final = 0.01

STEPS: Final = tuple(map(methodcaller, ("read_requests", "start_requests", "send_answers")))


class Turn:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._joined: list[TakesTurns] = []

    def join(self, connection: TakesTurns) -> None:
        """Take part in the next turn; to be called once for each."""
        if not self._joined:
            self._loop.call_soon(self._run)
        self._joined.append(connection)

    def _run(self) -> None:
        joined, self._joined = self._joined, []
        steps = STEPS
        if len(joined) > 1:
            joined = self._read(joined)
            steps = STEPS[1:]
        for step in steps:
            for connection in joined:
                try:
                    step(connection)
                except Exception:
                    _close(connection)

    def _read(self, joined: list[TakesTurns]) -> list[TakesTurns]:
        """Let them read, and return those that did; the others have the next turn."""
        stop_at = perf_counter() + READING_MAX_SECONDS
        for count, connection in enumerate(joined, 1):
            try:
                connection.read_requests()
            except Exception:
                _close(connection)
            if perf_counter() > stop_at and count < len(joined):
                self._joined = joined[count:] + self._joined
                self._loop.call_soon(self._run)
                return joined[:count]
        return joined


def _close(connection: TakesTurns) -> None:
    """Nobody else's turn ends with it."""
    log.exception("a connection is closed: its turn failed")
    connection.abort()
