"""Connections that are lost at once, as when a host with thousands of clients goes away.

What waits for each of them is ended a few in a turn of the loop: every request that waits wakes up
to end, and thousands of them would make one turn long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

# A fetch that waits takes a twentieth of a millisecond to end, a request over HTTP a tenth.
ENDED_PER_TURN: Final = 50


class LostConnections:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._ended_in_turn = 0

    def add(self, end: Callable[[], None]) -> None:
        """Call `end`: now, or in one of the next turns if this one has had enough."""
        if not self._ended_in_turn:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._ended_in_turn < ENDED_PER_TURN:
            self._ended_in_turn += 1
            end()
        else:
            self._waiting.append(end)

    def _next_turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended_in_turn = min(ENDED_PER_TURN, len(self._waiting))
        if self._ended_in_turn:
            loop.call_soon(self._next_turn)
        for _ in range(self._ended_in_turn):
            try:
                self._waiting.popleft()()
            except Exception as error:
                # Nobody else's end is left out over it.
                loop.call_exception_handler(
                    {"message": "a lost connection was not ended in order", "exception": error}
                )
