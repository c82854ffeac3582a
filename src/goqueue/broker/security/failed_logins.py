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

    async def delay(self, since_s: float | None = None) -> None:
        """Return when the answer may be given. `since_s`, by the loop's clock, is when it was asked
        for: as many whole delays later, so that the answer does not tell how long it took to look
        at a password, which depends on whose it is."""
        if self._delayed >= DELAYED_MAX or not self._delay_s:
            return
        now_s = asyncio.get_running_loop().time()
        passed_s = 0.0 if since_s is None else now_s - since_s
        self._delayed += 1
        try:
            await asyncio.sleep(self._delay_s - passed_s % self._delay_s)
        finally:
            self._delayed -= 1
