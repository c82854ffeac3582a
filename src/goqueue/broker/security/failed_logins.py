"""Log-ins that failed are answered late: who guesses waits."""

import asyncio
from typing import Final

# That wait for their answer. Each holds a request; those beyond are answered at once, and the turns
# in which passwords are tried slow guesses all the same.
DELAYED_MAX: Final = 1_000


class FailedLogins:
    def __init__(self, delay_ms: int) -> None:
        self._delay_s = delay_ms / 1000
        self._delayed = 0

    async def delay(self) -> None:
        """Return when the answer may be given."""
        if self._delayed >= DELAYED_MAX:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._delayed -= 1
