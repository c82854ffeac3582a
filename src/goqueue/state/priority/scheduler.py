"""Deficit round robin over the lanes of one queue, in units of messages."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from goqueue.model.queues.lanes import LANES, WEIGHTS, LaneMode

# A lane that has waited this long goes first, once, for as much as its weight.
BOOST_AFTER_MS: Final = 30_000


class _Round(NamedTuple):
    shares: list[int]
    credits: list[int]


class LaneScheduler:
    """Says how many messages to take from which lane.

    A round gives each lane as many credits as its weight; lanes spend them in order of priority,
    and the next round begins when no lane with messages has credits left. So a critical message
    goes first whenever its lane has not used up its part of the round, and no lane waits for more
    than the rest of a round and the others' part of the next. Credits do not add up.
    """

    __slots__ = ("_boost_after_ms", "_credits", "_mode", "_unserved_since_ms", "_weights")

    def __init__(
        self,
        mode: LaneMode = LaneMode.WEIGHTED,
        *,
        weights: Sequence[int] = WEIGHTS,
        boost_after_ms: int = BOOST_AFTER_MS,
    ) -> None:
        if len(weights) != len(LANES) or min(weights) < 1:
            raise ValueError(f"weights are {list(weights)}; give {len(LANES)} numbers of 1 or more")
        self._mode = mode
        self._weights = tuple(weights)
        self._boost_after_ms = boost_after_ms
        self._credits = list(weights)
        self._unserved_since_ms: list[int | None] = [None] * len(LANES)

    @property
    def mode(self) -> LaneMode:
        return self._mode

    def share(self, ready: Sequence[int], want: int, now_ms: int) -> list[int]:
        """How many of `ready` messages per lane to take, `want` at most. Spends nothing yet."""
        since = self._unserved_since_ms
        for lane in LANES:
            if not ready[lane]:
                since[lane] = None
            elif since[lane] is None:
                since[lane] = now_ms
        return self._run(ready, want, now_ms).shares

    def fair_shares(self, want: int) -> list[int]:
        """What each lane gets of `want` at most while all lanes have messages."""
        rounds = want // sum(self._weights) + 2
        return [weight * rounds for weight in self._weights]

    def spend(self, taken: Sequence[int], now_ms: int) -> None:
        """Count what was taken, which may be less than what `share` allowed."""
        self._credits = self._run(taken, sum(taken), now_ms).credits
        for lane in LANES:
            if taken[lane]:
                self._unserved_since_ms[lane] = None

    def is_boosted(self, lane: int, now_ms: int) -> bool:
        since_ms = self._unserved_since_ms[lane]
        return (
            self._mode is LaneMode.WEIGHTED
            and since_ms is not None
            and now_ms - since_ms >= self._boost_after_ms
        )

    def _run(self, ready: Sequence[int], want: int, now_ms: int) -> _Round:
        left = list(ready)
        shares = [0] * len(LANES)
        # A boost comes on top of the lane's credits; in strict mode everything ready is credit.
        boosts = [w if self.is_boosted(n, now_ms) else 0 for n, w in enumerate(self._weights)]
        want -= _spend(boosts, left, shares, want)
        if self._mode is not LaneMode.WEIGHTED:
            _spend(list(left), left, shares, want)
            return _Round(shares, self._credits)
        left_over = list(self._credits)
        want -= _spend(left_over, left, shares, want)
        while want > 0 and any(left):
            want -= self._whole_rounds(left, shares, want)
            left_over = list(self._weights)
            want -= _spend(left_over, left, shares, want)
        return _Round(shares, left_over)

    def _whole_rounds(self, left: list[int], shares: list[int], want: int) -> int:
        """Several rounds at once, while no lane runs empty: a large read costs no more.

        The last one of them is left to be walked, for what it leaves of the credits.
        """
        weights = self._weights
        active = [lane for lane in LANES if left[lane]]
        per_round = sum(weights[lane] for lane in active)
        rounds = min(want // per_round, min(left[lane] // weights[lane] for lane in active))
        rounds = max(rounds - 1, 0)
        for lane in active:
            taken = rounds * weights[lane]
            left[lane] -= taken
            shares[lane] += taken
        return rounds * per_round


def _spend(allowed: list[int], left: list[int], shares: list[int], want: int) -> int:
    """One pass over the lanes in order of priority; returns how many were taken."""
    total = 0
    for lane, credit in enumerate(allowed):
        taken = min(credit, left[lane], want - total)
        if taken > 0:
            allowed[lane] -= taken
            left[lane] -= taken
            shares[lane] += taken
            total += taken
    return total
