"""What a broker does not do while its logs are copied: a hold, for a bounded time.

A backup takes its cut at one moment and copies what lies before it afterwards. Retention may go on:
what it deletes is deleted in the backup, too. Two things would make the copy untrue:

- compaction drops a key's value because a newer one was written *after* the cut;
- the log of delayed messages drops what was delivered *after* the cut.

So neither begins while a hold is on. What began before may end: it decided by what lies before the
cut. In a cluster the decisions of transactions stand still as well, while the cut goes from broker
to broker; that takes milliseconds, and has its own bound.

A hold ends by itself: whoever took it may be gone. Times are of a clock that never goes back.
"""

from dataclasses import dataclass
from typing import Final

from goqueue.model.backups import PAUSE_MAX_MS, TTL_MAX_MS
from goqueue.model.errors import Conflict, InvalidRequest, UnknownBackup

# Logs of state grow without compaction: nobody may put it off for ever.
AGE_MAX_MS: Final = 24 * 60 * 60 * 1000
# Each is a copy of everything.
HOLDS_MAX: Final = 4


@dataclass(slots=True)
class _Hold:
    begun_ms: int
    ends_ms: int
    pause_ends_ms: int = 0


class Holds:
    def __init__(self) -> None:
        self._holds: dict[str, _Hold] = {}

    def begin(self, name: str, ttl_ms: int, *, now_ms: int) -> None:
        """`name` is one that nobody can guess."""
        _check("ttl", ttl_ms, TTL_MAX_MS)
        self._forget_ended(now_ms)
        if len(self._holds) >= HOLDS_MAX:
            raise Conflict(
                f"{len(self._holds)} backups are being made of this broker, which is the limit; "
                "wait for one to end"
            )
        self._holds[name] = _Hold(now_ms, now_ms + ttl_ms)

    def renew(self, name: str, ttl_ms: int, *, now_ms: int) -> None:
        _check("ttl", ttl_ms, TTL_MAX_MS)
        hold = self._find(name, now_ms)
        if now_ms - hold.begun_ms > AGE_MAX_MS:
            raise Conflict(f"the backup began more than {AGE_MAX_MS // 3_600_000} hours ago")
        hold.ends_ms = now_ms + ttl_ms

    def pause_transactions(self, name: str, pause_ms: int, *, now_ms: int) -> None:
        """No transaction begins or ends for this long; 0 lets them go on."""
        if not 0 <= pause_ms <= PAUSE_MAX_MS:
            raise InvalidRequest(f"pause: {pause_ms} ms is not between 0 and {PAUSE_MAX_MS}")
        self._find(name, now_ms).pause_ends_ms = now_ms + pause_ms

    def check(self, name: str, *, now_ms: int) -> None:
        """`UnknownBackup` for one that ended."""
        self._find(name, now_ms)

    def end(self, name: str, *, now_ms: int) -> None:
        self._find(name, now_ms)
        del self._holds[name]

    def is_on(self, *, now_ms: int) -> bool:
        return any(hold.ends_ms > now_ms for hold in self._holds.values())

    def transactions_held_ms(self, *, now_ms: int) -> int:
        """How long decisions of transactions still wait."""
        ends = (min(hold.pause_ends_ms, hold.ends_ms) for hold in self._holds.values())
        return max(0, max(ends, default=0) - now_ms)

    def _find(self, name: str, now_ms: int) -> _Hold:
        self._forget_ended(now_ms)
        hold = self._holds.get(name)
        if hold is None:
            raise UnknownBackup(
                "this broker knows no such backup: it was not renewed in time, or the broker was "
                "started anew; begin another"
            )
        return hold

    def _forget_ended(self, now_ms: int) -> None:
        for name, hold in tuple(self._holds.items()):
            if hold.ends_ms <= now_ms:
                del self._holds[name]


def _check(what: str, given_ms: int, limit_ms: int) -> None:
    if not 1 <= given_ms <= limit_ms:
        raise InvalidRequest(f"{what}: {given_ms} ms is not between 1 and {limit_ms}")
