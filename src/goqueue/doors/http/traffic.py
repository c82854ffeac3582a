"""What goes through the door: counted for the metrics, and bounded."""

from collections import Counter
from collections.abc import Sized
from typing import Final

from goqueue.model.measuring.histograms import Histogram

# Long polls stand among them, so it is large; each holds a task and a few KB.
REQUESTS_IN_FLIGHT_MAX: Final = 4_096

# How one sees from outside whether all is well: answered when nothing else is any more. They take
# no time and hold nothing.
PROBES: Final = frozenset({"/healthz", "/readyz"})
SCRAPE: Final = "/metrics"
# Scrapes run one after another, so those that wait have a limit of their own.
SCRAPES_IN_FLIGHT_MAX: Final = 16

# A client may send any word as a method; others are counted together.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    def __init__(self, connections: Sized) -> None:
        self._connections = connections
        self.in_flight = 0
        self.answered: Counter[tuple[str, int]] = Counter()
        # By method and route, a path's template or the name of a mount: few, whatever is asked.
        self.latencies: dict[tuple[str, str], Histogram] = {}

    @property
    def connections(self) -> int:
        return len(self._connections)

    def is_full_for(self, path: str) -> bool:
        if self.in_flight < REQUESTS_IN_FLIGHT_MAX or path in PROBES:
            return False
        return path != SCRAPE or self.in_flight >= REQUESTS_IN_FLIGHT_MAX + SCRAPES_IN_FLIGHT_MAX

    def count(self, method: str, status: int) -> None:
        self.answered[_known(method), status] += 1

    def time(self, method: str, route: str, seconds: float) -> None:
        key = (_known(method), route)
        histogram = self.latencies.get(key)
        if histogram is None:
            histogram = self.latencies[key] = Histogram()
        histogram.observe(seconds)


def _known(method: str) -> str:
    return method if method in _METHODS else "other"
