"""What clients of a cluster were told, and whether all of it can be true together.

Every value is unique. After peace the whole log is read, and held against the history:

- lost: an acknowledged value is not at the offset that was told;
- two values: an offset was read, or acknowledged, with another value than it has now;
- doubled: a value is in the log twice;
- out of order: one producer's values are not in the order sent;
- aborted read, torn: of a transaction that was aborted nothing is read, of one that was committed
  everything, of one whose end nobody knows all or nothing;
- stepped back: a group's offset is lower than one that was acknowledged;
- skipped: a group is past a value that none of its members ever saw.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""A topic and a partition."""
Log = dict[int, bytes]
"""Values by offset."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    values: list[tuple[Place, bytes]] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN


class History:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.acknowledged: dict[Place, Log] = {}
        self.transactions: list[Transaction] = []
        self._somewhere: dict[Place, list[bytes]] = {}
        self._sent: dict[Place, list[bytes]] = {}
        self._seen: dict[Place, Log] = {}
        self._group: dict[Place, int] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        told = (*self.acknowledged.values(), *self._somewhere.values())
        return sum(map(len, told))

    # --- what clients do ------------------------------------------------------------------

    def sent(self, place: Place, value: bytes) -> None:
        """By the one producer of the partition, in this order."""
        self._sent.setdefault(place, []).append(value)

    def was_acknowledged(self, place: Place, offset: int | None, value: bytes) -> None:
        """None: as a repetition of what is stored already, at an offset that nobody told."""
        with self._lock:
            if offset is None:
                self._somewhere.setdefault(place, []).append(value)
                return
            self._note(self.acknowledged.setdefault(place, {}), place, offset, value)

    def was_read(self, place: Place, offset: int, value: bytes) -> None:
        with self._lock:
            self._note(self._seen.setdefault(place, {}), place, offset, value)

    def began(self) -> Transaction:
        transaction = Transaction()
        self.transactions.append(transaction)
        return transaction

    def group_committed(self, place: Place, offset: int) -> None:
        with self._lock:
            self._group[place] = max(offset, self._group.get(place, 0))

    def group_offsets(self) -> dict[Place, int]:
        """What was acknowledged up to now: a group that is asked from here on has no less."""
        with self._lock:
            return dict(self._group)

    def group_found(self, place: Place, offset: int, at_least: int) -> None:
        if offset < at_least:
            self.violations.append(f"{place}: the group stepped back from {at_least} to {offset}")

    def _note(self, log: Log, place: Place, offset: int, value: bytes) -> None:
        before = log.setdefault(offset, value)
        if before != value:
            self.violations.append(f"{place}: offset {offset} is {before!r} and {value!r}")

    # --- whether it can be true -----------------------------------------------------------

    def check(self, stored: dict[Place, Log], committed: dict[Place, Log]) -> list[str]:
        """`stored` is the whole log, `committed` what a reader of committed values gets."""
        found = list(self.violations)
        for place, log in stored.items():
            found += self._lost(place, log)
            found += self._two_values(place, log)
            found += _doubled(place, log)
            found += self._out_of_order(place, log)
            found += self._skipped(place, committed.get(place, {}))
        found += self._torn(committed)
        return found

    def _lost(self, place: Place, log: Log) -> list[str]:
        stored = set(log.values())
        return [
            f"{place}: {value!r} was acknowledged as stored before, and is not"
            for value in self._somewhere.get(place, ())
            if value not in stored
        ] + [
            f"{place}: {value!r} was acknowledged at {offset}, where there is {log.get(offset)!r}"
            for offset, value in self.acknowledged.get(place, {}).items()
            if log.get(offset) != value
        ]

    def _two_values(self, place: Place, log: Log) -> list[str]:
        return [
            f"{place}: {value!r} was read at {offset}, where there is {log.get(offset)!r}"
            for offset, value in self._seen.get(place, {}).items()
            if log.get(offset) != value
        ]

    def _out_of_order(self, place: Place, log: Log) -> list[str]:
        order = {value: n for n, value in enumerate(self._sent.get(place, ()))}
        last, violations = -1, []
        for offset in sorted(log):
            if (n := order.get(log[offset])) is None:
                continue
            if n < last:
                violations.append(f"{place}: {log[offset]!r} at {offset} is out of order")
            last = n
        return violations

    def _skipped(self, place: Place, log: Log) -> list[str]:
        seen = self._seen.get(place, {})
        end = self._group.get(place, 0)
        missing = [offset for offset in log if offset < end and offset not in seen]
        return [f"{place}: the group is at {end} and never saw {missing[:5]}"] if missing else []

    def _torn(self, committed: dict[Place, Log]) -> list[str]:
        readable = Counter(
            (place, value) for place, log in committed.items() for value in log.values()
        )
        violations = []
        for transaction in self.transactions:
            there = sum(readable[value] > 0 for value in transaction.values)
            wanted = {
                Outcome.COMMITTED: {len(transaction.values)},
                Outcome.ABORTED: {0},
                Outcome.UNKNOWN: {0, len(transaction.values)},
            }[transaction.outcome]
            if there not in wanted:
                violations.append(
                    f"a transaction that is {transaction.outcome.value} has {there} of "
                    f"{len(transaction.values)} values to be read: {transaction.values[:3]}"
                )
        return violations


def _doubled(place: Place, log: Log) -> list[str]:
    twice = [value for value, count in Counter(log.values()).items() if count > 1]
    return [f"{place}: {len(twice)} values are there twice, such as {twice[0]!r}"] if twice else []
