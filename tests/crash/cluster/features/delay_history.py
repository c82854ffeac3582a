"""What senders of delayed messages were told, what arrived, and whether both can be true.

Values are unique, times are milliseconds of the one wall clock of this machine. Held against it:

- unknown: a value arrived that nobody sent;
- twice: a value arrived at two places;
- early: a value arrived, or is stored with a time, before it was due;
- lost: the broker took a value, it was not cancelled, and it does not come;
- cancelled: a value arrived although its cancellation was answered;
- late: a value arrived later than allowed after it was due (or taken, if that was later).
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

LATE_MAX_MS: Final = 5_000
# A broker that does not answer is believed dead after its session, which nobody can shorten.
SESSION_MS: Final = 3_000
_PERCENTILES: Final = (50, 95, 99, 100)


class Cancelling(Enum):
    NOT = "not cancelled"
    UNKNOWN = "maybe cancelled"
    DONE = "cancelled"


@dataclass(slots=True)
class Delayed:
    # Not before this, whatever the broker answers.
    due_from_ms: int
    # As answered.
    due_ms: int | None = None
    taken_at_ms: int | None = None
    cancelling: Cancelling = Cancelling.NOT


@dataclass(slots=True)
class Arrival:
    place: tuple[int, int]
    stamp_ms: int
    came_at_ms: int


@dataclass
class DelayHistory:
    delayed: dict[str, Delayed] = field(default_factory=dict)
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict)
    # When a broker did not answer without being dead, and until when that had consequences.
    pauses_ms: list[tuple[int, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sends(self, value: str, due_from_ms: int) -> Delayed:
        with self._lock:
            return self.delayed.setdefault(value, Delayed(due_from_ms))

    def has_arrived(self, value: str, arrival: Arrival) -> None:
        """The same place may be read several times."""
        with self._lock:
            known = self.arrivals.setdefault(value, [])
            if all(each.place != arrival.place for each in known):
                known.append(arrival)

    def open_values(self) -> set[str]:
        """What must still arrive."""
        with self._lock:
            return {
                value
                for value, each in self.delayed.items()
                if each.taken_at_ms is not None and each.cancelling is Cancelling.NOT
            } - self.arrivals.keys()

    # --- whether it can be true -----------------------------------------------------------

    def violations(self) -> list[str]:
        found = [f"delays: {value!r} is lost" for value in sorted(self.open_values())]
        for value, arrivals in self.arrivals.copy().items():
            sent = self.delayed.get(value)
            if sent is None:
                found.append(f"delays: {value!r} arrived, and was never sent")
                continue
            if len(arrivals) > 1:
                found.append(f"delays: {value!r} arrived twice: {arrivals}")
            if sent.cancelling is Cancelling.DONE:
                found.append(f"delays: {value!r} arrived, and was cancelled")
            found += _early(value, sent, arrivals[0])
            found += self._late(value, sent, arrivals[0])
        return found

    def _late(self, value: str, sent: Delayed, arrival: Arrival) -> list[str]:
        late_ms = _lateness_ms(sent, arrival)
        if late_ms is None or late_ms < self._allowed_ms(sent):
            return []
        return [
            f"delays: {value!r} is {late_ms} ms late: due {sent.due_ms}, taken {sent.taken_at_ms}, "
            f"stamped {arrival.stamp_ms}, arrived {arrival.came_at_ms}"
        ]

    def _allowed_ms(self, sent: Delayed) -> int:
        return LATE_MAX_MS + (SESSION_MS if self._in_pause(sent) else 0)

    def _in_pause(self, sent: Delayed) -> bool:
        assert sent.due_ms is not None
        from_ms = max(sent.due_ms, sent.taken_at_ms or 0)
        return any(begin <= from_ms <= end for begin, end in self.pauses_ms)

    def figures(self) -> dict[str, object]:
        lateness: dict[bool, list[int]] = {False: [], True: []}
        for value, arrivals in self.arrivals.copy().items():
            sent = self.delayed.get(value)
            if sent is not None and (late_ms := _lateness_ms(sent, arrivals[0])) is not None:
                lateness[self._in_pause(sent)].append(late_ms)
        taken = [each for each in self.delayed.values() if each.taken_at_ms is not None]
        cancelling = Counter(each.cancelling.value for each in self.delayed.values())
        return {
            "sent": len(self.delayed),
            "taken": len(taken),
            "arrived": len(self.arrivals),
            **cancelling,
            "late ms": _spread(lateness[False]),
            "late ms while a broker was paused": _spread(lateness[True]),
        }


def _early(value: str, sent: Delayed, arrival: Arrival) -> list[str]:
    due_ms = sent.due_ms if sent.due_ms is not None else sent.due_from_ms
    seen_ms = arrival.came_at_ms
    if sent.taken_at_ms is not None and sent.taken_at_ms < due_ms:
        # What is due before it is taken is stored at once, with the time at which it was sent.
        seen_ms = min(seen_ms, arrival.stamp_ms)
    return [f"delays: {value!r} is {due_ms - seen_ms} ms early"] if seen_ms < due_ms else []


def _lateness_ms(sent: Delayed, arrival: Arrival) -> int | None:
    if sent.due_ms is None or sent.taken_at_ms is None:
        return None
    return arrival.came_at_ms - max(sent.due_ms, sent.taken_at_ms)


def _spread(numbers: Sequence[int]) -> dict[str, int]:
    ordered = sorted(numbers)
    found = {"count": len(ordered)}
    for percent in _PERCENTILES if ordered else ():
        found[f"p{percent}"] = ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
    return found
