"""How long a client tries again before it gives up."""

import time
from typing import Final

from goqueue.model.errors import GoQueueError

# A restarting broker is back in about a second; asking more often only costs it time.
FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.5


class Patience:
    """Pauses between tries, until they have failed for `timeout_ms` in a row.

    `first_timeout_ms` holds until the first success: who never reached anybody should hear of it
    soon, for the address may be wrong.
    """

    def __init__(self, timeout_ms: int, *, first_timeout_ms: int | None = None) -> None:
        self._timeout_ms = timeout_ms
        self._now_timeout_ms = min(timeout_ms, first_timeout_ms or timeout_ms)
        self._gives_up_at: float | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def wait(self, failure: GoQueueError) -> None:
        """Return when it is time for the next try; raise `failure` if there was time enough."""
        now = time.monotonic()
        if self._gives_up_at is None:
            self._gives_up_at = now + self._now_timeout_ms / 1000
        if now + self._pause_seconds > self._gives_up_at:
            raise failure
        time.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def succeeded(self) -> None:
        self._now_timeout_ms = self._timeout_ms
        self._gives_up_at = None
        self._pause_seconds = FIRST_PAUSE_SECONDS
