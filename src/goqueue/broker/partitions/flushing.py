"""When appended bytes reach the disk.

`always`: an append asks for a flush at once; those that arrive while one runs share the next
(group commit). `interval`: the first unflushed append starts a timer. `never`: nothing.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final, Protocol

from goqueue.model.errors import PartitionOffline
from goqueue.model.measuring.histograms import Histogram

# fdatasync releases the interpreter; a few at once keep one slow file from delaying the others.
FLUSH_THREADS: Final = 4


class FlushableLog(Protocol):
    @property
    def log_end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    def flush(self) -> int: ...


class Flusher:
    """The threads that wait for the disk, shared by all partitions of a broker."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="goqueue-flush")
        self.latencies = Histogram()
        self._counting = Lock()

    def submit(self, log: FlushableLog) -> Future[int]:
        return self._threads.submit(self._flush, log)

    def _flush(self, log: FlushableLog) -> int:
        started = time.perf_counter()
        try:
            return log.flush()
        finally:
            seconds = time.perf_counter() - started
            with self._counting:
                self.latencies.observe(seconds)

    def close(self) -> None:
        self._threads.shutdown(wait=True)


class FlushSchedule:
    """Decides when one log is flushed. At most one flush of a log runs at a time."""

    __slots__ = (
        "_failed",
        "_flushed",
        "_flusher",
        "_log",
        "_running",
        "_submitted",
        "_timer",
        "is_over",
    )

    def __init__(
        self,
        log: FlushableLog,
        flusher: Flusher,
        *,
        flushed: Callable[[], None],
        failed: Callable[[PartitionOffline], None],
    ) -> None:
        self._log = log
        self._flusher = flusher
        self._flushed = flushed
        self._failed = failed
        self._submitted: Future[int] | None = None
        self._running: asyncio.Future[int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def appended(self, policy: str, flush_ms: int) -> None:
        if self.is_over:
            return
        if policy == "always":
            self.start()
        elif policy == "interval" and self._timer is None and self._running is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(flush_ms / 1000, self._due)

    def start(self) -> None:
        if self._running is None and not self.is_over:
            self._submitted = self._flusher.submit(self._log)
            self._running = asyncio.wrap_future(self._submitted)
            self._running.add_done_callback(self._done)

    async def ended(self) -> None:
        """Return when the flush under way has ended, if there is one."""
        if self._running is not None:
            await asyncio.wait([self._running])

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Begin no other flush. One that still waits for a thread is called off: whoever closes
        the log flushes it.
        """
        self.is_over = True
        self.cancel()
        if self._submitted is not None:
            self._submitted.cancel()

    def detach(self) -> None:
        """After `settle`: nobody is told of anything any more."""
        self._flushed, self._failed = _tell_nobody, _tell_nobody

    async def settle(self) -> None:
        """As `end`, and wait for a flush under way; then the log may be closed."""
        self.end()
        if self._running is not None:
            await asyncio.wait([self._running])

    def _due(self) -> None:
        self._timer = None
        self.start()

    def _done(self, future: asyncio.Future[int]) -> None:
        self._running = None
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._flushed()
        elif isinstance(error, PartitionOffline):
            self._failed(error)
        else:
            self._failed(PartitionOffline(f"flush failed: {error}"))


def _tell_nobody(_: PartitionOffline | None = None) -> None:
    pass
