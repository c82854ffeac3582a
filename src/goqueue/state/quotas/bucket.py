"""One owner's use of one quota; see the table of the package."""

from math import ceil
from typing import Final

# Clients give up a request after half a minute (Java) or a minute (librdkafka) and send it again on
# a new connection: debts beyond that would never be worked off.
DEBT_MAX_S: Final = 60.0
# Over once to twice as long `used_per_s` looks back: clients that are held back send in bursts.
_SEEN_MS: Final = 10_000
_SECOND_MS: Final = 1_000


class Bucket:
    __slots__ = ("_at_ms", "_before", "_since_ms", "_used", "burst", "rate", "tokens")

    def __init__(self, rate: float, burst: float, now_ms: float) -> None:
        """`rate` is per second, above 0."""
        self.rate = rate
        self.burst = burst
        # When it was looked at last; below 0 is a debt.
        self.tokens = burst
        self._at_ms = now_ms
        # What was used in this window, and in the one before, if there was one.
        self._since_ms = now_ms
        self._used = 0.0
        self._before: float | None = None

    def retune(self, rate: float, burst: float, now_ms: float) -> None:
        """Another quota from now on; debts stay, in the time that they take."""
        self._fill(now_ms)
        if self.tokens < 0:
            self.tokens *= rate / self.rate
        self.rate = rate
        self.burst = burst
        self.tokens = min(self.tokens, burst)

    def charge(self, amount: float, now_ms: float) -> int:
        """Use something up; returns how many milliseconds to wait before more is used."""
        # As `_fill` and `_look_back`: this is done for every request.
        tokens, passed_ms = self.tokens, now_ms - self._at_ms
        if passed_ms > 0:
            self._at_ms = now_ms
            tokens += passed_ms * self.rate / 1000
            if tokens > self.burst:
                tokens = self.burst
        if now_ms - self._since_ms >= _SEEN_MS:
            self._look_back(now_ms)
        self._used += amount
        tokens -= amount
        if tokens >= 0:
            self.tokens = tokens
            return 0
        self.tokens = tokens = max(tokens, -DEBT_MAX_S * self.rate)
        return ceil(-tokens * 1000 / self.rate)

    def wait_ms(self, now_ms: float) -> int:
        self._fill(now_ms)
        return 0 if self.tokens >= 0 else ceil(-self.tokens * 1000 / self.rate)

    def is_full(self, now_ms: float) -> bool:
        self._fill(now_ms)
        return self.tokens >= self.burst

    def used_per_s(self, now_ms: float) -> float:
        self._look_back(now_ms)
        passed_ms = now_ms - self._since_ms
        if self._before is None:
            return self._used * 1000 / max(passed_ms, _SECOND_MS)
        return (self._before + self._used) * 1000 / (_SEEN_MS + passed_ms)

    def _fill(self, now_ms: float) -> None:
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            self._at_ms = now_ms
            self.tokens = min(self.burst, self.tokens + passed_ms * self.rate / 1000)

    def _look_back(self, now_ms: float) -> None:
        passed_ms = now_ms - self._since_ms
        if passed_ms < _SEEN_MS:
            return
        is_next = passed_ms < 2 * _SEEN_MS
        self._before = self._used if is_next else None
        self._used = 0.0
        self._since_ms = self._since_ms + _SEEN_MS if is_next else now_ms
