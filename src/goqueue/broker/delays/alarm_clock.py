"""Wakes whoever waits for a time of the wall clock: one timer, however many wait."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

# The wall clock may be set forward.
LOOK_MAX_MS: Final = 1_000
# Smaller steps back are waited out.
SET_BACK_MS: Final = 1_000
# Alarms that were set anew stay in the heap until their time; more of them than this beside those
# that count, and it is made anew.
STALE_MAX: Final = 64

Ring = Callable[[], None]


class _Alarm(NamedTuple):
    at_ms: int
    # Of two for one time the one that was set first rings first.
    number: int
    ring: Ring


class AlarmClock:
    """An alarm rings once, at its time or when the clock was set back; then it is to be set anew.

    As long as no alarm is set there is no timer.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._numbers: dict[Ring, int] = {}
        self._heap: list[_Alarm] = []
        self._last_number = 0
        self._latest_ms = clock_ms()
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_ms = 0

    def set(self, ring: Ring, at_ms: int) -> None:
        """Call `ring` at that time, and not at the one that it was set to before."""
        self._last_number += 1
        self._numbers[ring] = self._last_number
        if len(self._heap) > 2 * len(self._numbers) + STALE_MAX:
            self._heap = [alarm for alarm in self._heap if self._counts(alarm)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, _Alarm(at_ms, self._last_number, ring))
        if self._timer is None or at_ms < self._looks_at_ms:
            self._look_next()

    def unset(self, ring: Ring) -> None:
        self._numbers.pop(ring, None)

    def _counts(self, alarm: _Alarm) -> bool:
        return self._numbers.get(alarm.ring) == alarm.number

    def _look_next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap:
            return
        now_ms = self._clock_ms()
        delay_ms = min(max(self._heap[0].at_ms - now_ms, 1), LOOK_MAX_MS)
        self._looks_at_ms = now_ms + delay_ms
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock_ms()
        if now_ms < self._latest_ms - SET_BACK_MS:
            # Whoever waits has to count anew.
            due = [alarm for alarm in self._heap if self._counts(alarm)]
            self._heap = []
            self._latest_ms = now_ms
        else:
            self._latest_ms = max(self._latest_ms, now_ms)
            due = []
            while self._heap and self._heap[0].at_ms <= now_ms:
                alarm = heapq.heappop(self._heap)
                if self._counts(alarm):
                    due.append(alarm)
        for alarm in due:
            del self._numbers[alarm.ring]
        for alarm in due:
            alarm.ring()
        if self._timer is None:
            self._look_next()
