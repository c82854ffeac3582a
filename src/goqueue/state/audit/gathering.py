"""What happens again and again, told at most once a minute with a count.

The first time is told at once. What is the same within the next minute is counted, and told when
the minute is over; then another minute begins. A minute without anything ends it.
"""

from dataclasses import dataclass
from typing import Final

from goqueue.model.audit import Sameness
from goqueue.model.caller import Principal

WINDOW_MS: Final = 60_000
# Remembered at a time, 500 bytes each. Whoever asks for more different things than that is told of
# without their names: the counts stay right.
KINDS_MAX: Final = 10_000
# Beyond these, who it was is still told: one who asks for ten thousand things must not hide what
# it, or somebody else, asks for next. A flood by more users than this is told without them.
PRINCIPALS_MAX: Final = 1_000
OTHERS: Final = "*"


@dataclass(frozen=True, slots=True)
class Gathered:
    what: Sameness
    count: int
    last_ms: int


@dataclass(slots=True)
class _Minute:
    ends_ms: int
    count: int = 0
    last_ms: int = 0


class Gathering:
    def __init__(
        self,
        *,
        window_ms: int = WINDOW_MS,
        kinds_max: int = KINDS_MAX,
        principals_max: int = PRINCIPALS_MAX,
    ) -> None:
        self._window_ms = window_ms
        self._kinds_max = kinds_max
        self._all_max = kinds_max + principals_max
        # By their ends: all are equally long.
        self._minutes: dict[Sameness, _Minute] = {}

    def seen(self, what: Sameness, now_ms: int) -> Gathered | None:
        """What is to be told at once; None: it is counted."""
        minute = self._minutes.get(what)
        if minute is None and len(self._minutes) >= self._kinds_max:
            what = without_things(what)
            minute = self._minutes.get(what)
        if minute is None and len(self._minutes) >= self._all_max:
            what = what._replace(principal=Principal("", OTHERS))
            minute = self._minutes.get(what)
        if minute is None:
            self._minutes[what] = _Minute(now_ms + self._window_ms)
            return Gathered(what, 1, now_ms)
        minute.count += 1
        minute.last_ms = now_ms
        return None

    def due(self, now_ms: int) -> list[Gathered]:
        """What was counted in the minutes that are over."""
        told: list[Gathered] = []
        over = []
        for what, minute in self._minutes.items():
            if minute.ends_ms > now_ms:
                break
            over.append(what)
        for what in over:
            minute = self._minutes.pop(what)
            if minute.count:
                told.append(Gathered(what, minute.count, minute.last_ms))
                self._minutes[what] = _Minute(now_ms + self._window_ms)
        return told

    def rest(self) -> list[Gathered]:
        """What was counted so far; at the end."""
        minutes, self._minutes = self._minutes, {}
        return [
            Gathered(what, minute.count, minute.last_ms)
            for what, minute in minutes.items()
            if minute.count
        ]


def without_things(what: Sameness) -> Sameness:
    """All that there are too many of, by who asked, the event, the outcome and the door."""
    return what._replace(address=OTHERS, resource="", name=OTHERS, verb=OTHERS)
