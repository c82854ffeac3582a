"""The holds of backups on this broker, by the clock, and what waits for them."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from goqueue.state.backups.holds import Holds


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Holding:
    def __init__(self, clock_ms: Callable[[], int] = _monotonic_ms) -> None:
        """`clock_ms` never goes back."""
        self._clock_ms = clock_ms
        self._holds = Holds()
        # Set, and another one made, when a pause may be over early.
        self._changed = asyncio.Event()

    @property
    def is_on(self) -> bool:
        """Whether what is deleted or compacted now may be missing in somebody's copy."""
        return self._holds.is_on(now_ms=self._clock_ms())

    @property
    def transactions_held_ms(self) -> int:
        return self._holds.transactions_held_ms(now_ms=self._clock_ms())

    async def transactions_may_go_on(self) -> None:
        """Whoever waited looks again whether all is as it was before."""
        while held_ms := self.transactions_held_ms:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), held_ms / 1000)

    def begin(self, ttl_ms: int) -> str:
        name = secrets.token_hex(16)
        self._holds.begin(name, ttl_ms, now_ms=self._clock_ms())
        return name

    def renew(self, name: str, ttl_ms: int) -> None:
        self._holds.renew(name, ttl_ms, now_ms=self._clock_ms())

    def pause_transactions(self, name: str, pause_ms: int) -> None:
        self._holds.pause_transactions(name, pause_ms, now_ms=self._clock_ms())
        self._look_again()

    def check(self, name: str) -> None:
        self._holds.check(name, now_ms=self._clock_ms())

    def end(self, name: str) -> None:
        self._holds.end(name, now_ms=self._clock_ms())
        self._look_again()

    def _look_again(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
