"""How far a command has come, for whoever waits for it."""

import threading
import time
from typing import Final, TextIO

_INTERVAL_SECONDS: Final = 0.5
_MB: Final = 1_000_000


class Progress:
    """Writes one line again and again where somebody looks; `out` None: nowhere. For any thread."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._what = ""
        self._total = self.done = 0
        self._began = self._shown_at = 0.0

    def begin(self, what: str, total_bytes: int) -> None:
        self._what, self._total, self.done = what, total_bytes, 0
        self._began = self._shown_at = time.monotonic()

    def add(self, size_bytes: int) -> None:
        with self._lock:
            self.done += size_bytes
            now = time.monotonic()
            if self._out is None or now - self._shown_at < _INTERVAL_SECONDS:
                return
            self._shown_at = now
            self._show(self._out, now)

    def end(self) -> None:
        """Take the line away."""
        if self._out is not None and self._shown_at > self._began:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _show(self, out: TextIO, now: float) -> None:
        rate = self.done / max(now - self._began, 0.001)
        # More than was foreseen is appended meanwhile, or counted twice.
        share = f" of {self._total / _MB:,.0f}" if self._total > self.done else ""
        out.write(f"\r\x1b[K{self._what} {self.done / _MB:,.0f}{share} MB, {rate / _MB:,.0f} MB/s")
        out.flush()
