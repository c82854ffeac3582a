"""Spans on their way out of the process, off the event loop, within bounds."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.model.tracing.spans import Span

logger = logging.getLogger(__name__)

# A second or two of the busiest tracing, some 10 MB; what comes while it is full is dropped.
QUEUE_MAX_SPANS: Final = 20_000
# Spans are gathered for so long, so that a busy broker writes few large pieces.
GATHER_SECONDS: Final = 0.2
# In one piece, which an OTLP receiver takes in one request.
PIECE_SPANS: Final = 512
# What is left at the end gets this long, and as long again once what it waits for is broken off:
# a shutdown has two seconds in all.
CLOSE_TIMEOUT_SECONDS: Final = 0.5
# A broken exporter says so once in a while, not for every piece.
COMPLAINT_INTERVAL_SECONDS: Final = 60

_encode = msgspec.json.Encoder().encode


class ExportFailed(Exception):
    """The spans are lost; the message says why."""


class ExportThread:
    """Writes spans in a thread of its own, which is started by the first one."""

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Span]], None],
        *,
        end: Callable[[], None] | None = None,
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        """`write` raises `ExportFailed` or OSError; `end` is called after the last piece.

        `interrupt` is called by another thread, to end a `write` that takes too long at the end.
        """
        self.name = name
        self.exported = 0
        self.dropped = 0
        self._write = write
        self._end = end
        self._interrupt = interrupt
        self._queue: deque[Span] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained_at: float | None = None

    def offer(self, span: Span) -> None:
        queue = self._queue
        if len(queue) >= QUEUE_MAX_SPANS:
            self.dropped += 1
            return
        queue.append(span)
        if len(queue) == 1:
            self._wake.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        name = f"goqueue-trace-{self.name}"
        # A daemon: a receiver that hangs must not keep the process from ending.
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system has no room for it now. Whoever publishes must not hear of that.
            self._lose(len(self._queue), ExportFailed(str(error)))
            self._queue.clear()
        else:
            self._thread = thread

    def close(self) -> None:
        """Write what is left, within a second."""
        self._closing.set()
        self._wake.set()
        if self._thread is None:
            return
        self._thread.join(CLOSE_TIMEOUT_SECONDS)
        if self._thread.is_alive() and self._interrupt is not None:
            self._interrupt()
            self._thread.join(CLOSE_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            self._closing.wait(GATHER_SECONDS)
            self._drain()
        self._drain()
        if self._end is not None:
            self._end()

    def _drain(self) -> None:
        while self._queue:
            piece = [self._queue.popleft() for _ in range(min(len(self._queue), PIECE_SPANS))]
            try:
                self._write(piece)
                self.exported += len(piece)
            except Exception as error:
                # Whatever it is, the broker goes on, and so does tracing.
                self._lose(len(piece), error)

    def _lose(self, count: int, error: Exception) -> None:
        self.dropped += count
        now = time.monotonic()
        if self._complained_at is None or now - self._complained_at > COMPLAINT_INTERVAL_SECONDS:
            self._complained_at = now
            is_foreseen = isinstance(error, ExportFailed | OSError)
            logger.warning(
                "%d spans lost by the %s exporter: %s",
                count,
                self.name,
                error,
                exc_info=None if is_foreseen else error,
            )


def as_lines(spans: Sequence[Span]) -> bytes:
    """JSON objects, one per line."""
    return b"".join(_encode(span) + b"\n" for span in spans)


def console_export() -> ExportThread:
    def write(spans: Sequence[Span]) -> None:
        sys.stdout.buffer.write(as_lines(spans))
        sys.stdout.buffer.flush()

    return ExportThread("console", write)
