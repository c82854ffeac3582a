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

    async def delay(self) -> None:
        """Return when the answer may be given."""
        if self._delayed >= DELAYED_MAX:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._delayed -= 1
