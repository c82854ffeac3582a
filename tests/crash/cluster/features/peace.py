"""When nothing was wrong with the cluster: what fails then fails without a reason."""

import threading
import time


class Peace:
    def __init__(self) -> None:
        self._since: float | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self._since = time.monotonic()

    def end(self) -> None:
        """Before the first thing goes wrong."""
        with self._lock:
            self._since = None

    def held_since(self, began: float) -> bool:
        """Whether there was peace from then on until now."""
        with self._lock:
            return self._since is not None and self._since <= began
