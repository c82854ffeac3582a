"""Log-ins that failed: answered late, and counted."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

# That wait for their answer. Each holds a request; those beyond are answered at once, and the turns
# in which passwords are tried slow guesses all the same.
DELAYED_MAX: Final = 1_000
_WEB: Final = ("password", "key", "token", "session", "other", "nothing")
_SHOWN: Final[Mapping[str, Sequence[str]]] = {
    "http": _WEB,
    "registry": _WEB,
    "sqs": ("signature", "nothing"),
}


class FailedLogins:
    def __init__(self, delay_ms: int) -> None:
        self._delay_s = delay_ms / 1000
        self._delayed = 0
        # By the door and what was shown. All are there from the start: a rate needs a zero before
        # the first failure.
        self.counts: Counter[tuple[str, str]] = Counter(
            {(door, by): 0 for door, shown in _SHOWN.items() for by in shown}
        )

    def count(self, door: str, by: str) -> None:
        self.counts[door, by] += 1

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
