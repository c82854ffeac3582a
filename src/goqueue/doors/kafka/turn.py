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

READ: Final = methodcaller("read_requests")
STEPS: Final = (READ, methodcaller("start_requests"), methodcaller("send_answers"))


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
        stop_at = perf_counter() + READING_MAX_SECONDS
        for step in STEPS:
            for count, connection in enumerate(joined, 1):
                try:
                    step(connection)
                except Exception:
                    # Nobody else's turn ends with it.
                    log.exception("a connection is closed: its turn failed")
                    connection.abort()
                if step is READ and count < len(joined) and perf_counter() > stop_at:
                    self._joined = joined[count:] + self._joined
                    self._loop.call_soon(self._run)
                    del joined[count:]
                    break
