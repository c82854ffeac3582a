"""Connections that are lost at once, as when a host with thousands of clients goes away.

What waits for each of them is ended a few in a turn of the loop: every request that waits wakes up
to end, and thousands of them would make one turn long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

# A fetch that waits takes a twentieth of a millisecond to end.
ENDED_PER_TURN: Final = 50


class LostConnections:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, end: Callable[[], None]) -> None:
        """Call `end` soon; one after the other, in order."""
        if not self._waiting:
            self._loop.call_soon(self._end_some)
        self._waiting.append(end)

    def _end_some(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(ENDED_PER_TURN, len(self._waiting)))]
        if self._waiting:
            self._loop.call_soon(self._end_some)
        for end in some:
            try:
                end()
            except Exception as error:
                # Nobody else's end is left out over it.
                self._loop.call_exception_handler(
                    {"message": "a lost connection was not ended in order", "exception": error}
                )
