"""A bound on bytes a second, for all threads of a command together."""

import threading
import time
from collections.abc import Callable


class Rate:
    """`bytes_a_second` None: no bound."""

    def __init__(
        self,
        bytes_a_second: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_a_second = bytes_a_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        # When all that was taken so far is paid for.
        self._free_at = clock()

    def take(self, size_bytes: int) -> None:
        """Return when as much may be moved."""
        if self._bytes_a_second is None:
            return
        with self._lock:
            now = self._clock()
            # What was not used before is not saved up.
            begins_at = max(now, self._free_at)
            self._free_at = begins_at + size_bytes / self._bytes_a_second
        if begins_at > now:
            self._sleep(begins_at - now)
