"""Log-ins that failed: answered late, and counted."""

import asyncio
from collections import Counter
from typing import Final

# That wait for their answer. Each holds a request; those beyond are answered at once, and the turns
# in which passwords are tried slow guesses all the same.
DELAYED_MAX: Final = 1_000


class FailedLogins:
    def __init__(self, delay_ms: int) -> None:
        self._delay_s = delay_ms / 1000
        self._delayed = 0
        # By the door and what was shown, such as ("http", "basic"): a handful.
        self.counts: Counter[tuple[str, str]] = Counter()

    def count(self, door: str, by: str) -> None:
        self.counts[door, by] += 1

    async def delay(self) -> None:
        """Return when the answer may be given."""
        if self._delayed >= DELAYED_MAX:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._delayed -= 1
