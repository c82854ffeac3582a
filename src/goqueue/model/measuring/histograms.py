"""How long things take: counts per fixed bucket, cheap enough for every request."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

# From the quickest answers of this broker (a produce takes some 100 µs) to a long poll's wait.
LATENCY_BOUNDS_SECONDS: Final = (
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


class HistogramFigures(NamedTuple):
    """A histogram at one moment; `counts` has one more than `bounds`, for what is above all."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class Histogram:
    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_SECONDS) -> None:
        """`bounds` ascend; a bucket includes its own, as Prometheus' `le` does."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def figures(self) -> HistogramFigures:
        return HistogramFigures(self._bounds, tuple(self._counts), self._sum)


class Histograms(dict[str, Histogram]):
    """One per name, made on first use. The names must come from a bounded set."""

    def __missing__(self, name: str) -> Histogram:
        made = self[name] = Histogram()
        return made
