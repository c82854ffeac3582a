"""How many bytes all connections hold, who waits for that to shrink, and who is cut off for it.

Partial frames, requests and unsent answers share one budget. Requests are done with soon: while
the budget is used up, no new frame is read. The rest lasts as long as the client likes: half a
frame, an answer it does not read, requests it sent behind one that waits. When three quarters of
the budget are taken, large frames are not read on, and who holds most of that for longest is
closed; the last quarter is for requests that come and go.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

log = logging.getLogger(__name__)

# What is on its way at a usual pace is gone by then.
STALLED_SECONDS: Final = 0.5
# Nobody is closed for less.
STALLED_MIN_BYTES: Final = 16 * 1024
# An answer may always be this large; a fetch sends one whole batch whatever its size.
ANSWER_MIN_BYTES: Final = 64 * 1024
# One answer takes at most this part of what is left.
ANSWER_SHARE: Final = 4


class Holder(Protocol):
    @property
    def stalled_bytes(self) -> int:
        """What it holds until its client goes on."""

    @property
    def stalled_since_seconds(self) -> float: ...
    def memory_freed(self) -> None: ...
    def cut_off(self, reason: str) -> None: ...


class RequestMemory:
    def __init__(self, limit_bytes: int, holders: Callable[[], Iterable[Holder]] = tuple) -> None:
        self.limit_bytes = limit_bytes
        self._tight_bytes = limit_bytes * 3 // 4
        self._holders = holders
        self.held_bytes = 0
        self._waiting: dict[Holder, None] = {}
        self._is_relieving = False

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self.limit_bytes

    @property
    def is_tight(self) -> bool:
        return self.held_bytes >= self._tight_bytes

    @property
    def answer_max_bytes(self) -> int:
        """How large an answer may be just now."""
        left_bytes = self._tight_bytes - self.held_bytes
        return max(left_bytes // ANSWER_SHARE, ANSWER_MIN_BYTES)

    def take(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes
        if self.held_bytes >= self._tight_bytes and not self._is_relieving:
            self._is_relieving = True
            asyncio.get_running_loop().call_soon(self._relieve)

    def give_back(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes
        while self._waiting and not self.is_tight:
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.memory_freed()

    def wait(self, waiting: Holder) -> None:
        self._waiting[waiting] = None

    def forget(self, waiting: Holder) -> None:
        self._waiting.pop(waiting, None)

    def _relieve(self) -> None:
        """Close who is in everyone's way; look again soon if that was not enough."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        stalled = [
            (held_bytes * (now - holder.stalled_since_seconds), held_bytes, holder)
            for holder in self._holders()
            if (held_bytes := holder.stalled_bytes) >= STALLED_MIN_BYTES
            and now - holder.stalled_since_seconds >= STALLED_SECONDS
        ]
        stalled.sort(key=lambda each: each[0], reverse=True)
        for _, held_bytes, holder in stalled:
            if not self.is_tight:
                break
            holder.cut_off(
                f"it held {held_bytes} bytes for too long; all connections may hold "
                f"{self.limit_bytes} (queued.max.request.bytes)"
            )
        self._is_relieving = self.is_tight
        if self._is_relieving:
            loop.call_later(STALLED_SECONDS / 2, self._relieve)
