"""Entries on their way to where they are kept: a bounded queue, and a task that empties it."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from goqueue.state.audit.by_party import ByParty

logger = logging.getLogger(__name__)

# Some 3 MB. What may be said more often than anyone means it (refusals, log-ins) gets half of it at
# most, so that no flood of it hides what was changed.
QUEUE_MAX: Final = 10_000
GATHERED_MAX: Final = QUEUE_MAX // 2
# Entries wait for this long at most before they are written: what a killed broker loses.
WRITE_INTERVAL_S: Final = 0.25
# In one piece.
PIECE_ENTRIES: Final = 500
# A disk or a leader that does not answer for this long has lost the piece.
WRITE_TIMEOUT_S: Final = 10.0
# What is left at the end gets this long; a shutdown has two seconds in all.
CLOSE_TIMEOUT_S: Final = 1.0
COMPLAINT_INTERVAL_S: Final = 60.0


class AuditLine:
    def __init__(self, name: str, write: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        """`write` takes entries as JSON."""
        self.name = name
        self.dropped = 0
        self._write = write
        # Filled by any thread.
        self._lock = threading.Lock()
        # Numbered in the order in which they came. No flood of one of them takes room of another.
        self._changed: ByParty[tuple[int, bytes]] = ByParty()
        self._gathered: ByParty[tuple[int, bytes]] = ByParty()
        self._next = 0
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complained_at: float | None = None

    def offer(self, entry: bytes, *, is_gathered: bool, party: str = "") -> None:
        """Where there is no room, the party loses one that has most: one that changes things, or
        is refused them, without end does not hide what is told of others."""
        with self._lock:
            queue = self._gathered if is_gathered else self._changed
            if self._length >= QUEUE_MAX or (is_gathered and len(queue) >= GATHERED_MAX):
                self.dropped += 1
                loser = queue.gives_way(party)
                if loser == party:
                    return
                queue.drop_last_of(loser)
            queue.add(party, (self._next, entry))
            self._next += 1

    @property
    def _length(self) -> int:
        return len(self._changed) + len(self._gathered)

    def _take_first(self) -> bytes:
        changed, gathered = self._changed.first(), self._gathered.first()
        is_gathered = changed is None or (gathered is not None and gathered < changed)
        return (self._gathered if is_gathered else self._changed).take_first()[1]

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write what is left, within a second."""
        if self._task is None:
            return
        self._closing.set()
        task, self._task = self._task, None
        await asyncio.wait({task}, timeout=CLOSE_TIMEOUT_S)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with self._lock:
            left = self._length
            self._changed, self._gathered = ByParty(), ByParty()
        self._lose(left, "the broker stops")

    async def _run(self) -> None:
        is_over = False
        while not is_over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WRITE_INTERVAL_S):
                    await self._closing.wait()
            is_over = self._closing.is_set()
            await self._drain()

    async def _drain(self) -> None:
        while self._length:
            with self._lock:
                count = min(self._length, PIECE_ENTRIES)
                piece = [self._take_first() for _ in range(count)]
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await self._write(piece)
            except asyncio.CancelledError:
                self._lose(count, "the broker stops")
                raise
            except Exception as error:
                # Whatever it is, the broker goes on, and so does the audit.
                self._lose(count, str(error) or type(error).__name__)

    def _lose(self, count: int, reason: str) -> None:
        if not count:
            return
        self.dropped += count
        now = time.monotonic()
        if self._complained_at is None or now - self._complained_at > COMPLAINT_INTERVAL_S:
            self._complained_at = now
            logger.warning("%d entries of the audit lost (%s): %s", count, self.name, reason)
