"""How many calls there were, how long they took, and which had no answer."""

import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Final

from goqueue.model.errors import BrokerUnreachable, RequestTimedOut
from goqueue.model.measuring.figures import CallFigures, CallSide
from goqueue.model.measuring.histograms import Histograms
from goqueue.model.names import NodeId

REFUSED: Final = "refused"
TIMED_OUT: Final = "timed_out"
UNREACHABLE: Final = "unreachable"
REASONS: Final = (REFUSED, TIMED_OUT, UNREACHABLE)


class SideCounts:
    """Of calls in one direction, by the names of methods."""

    def __init__(self) -> None:
        self.latencies = Histograms()
        self.in_flight = 0
        self.request_bytes = 0
        self.answer_bytes = 0

    def figures(self) -> CallSide:
        latencies = {name: each.figures() for name, each in self.latencies.items()}
        return CallSide(latencies, self.in_flight, self.request_bytes, self.answer_bytes)


class CallCounts:
    """Of one broker since its start."""

    def __init__(self) -> None:
        self.asked = SideCounts()
        self.served = SideCounts()
        # By method: no answer came, or one that nothing was done.
        self.failures: Counter[tuple[str, str]] = Counter()
        # By broker: lists in which it was missing.
        self.unanswered: Counter[NodeId] = Counter()

    def refused(self, method: str) -> None:
        """Nothing was done, and another broker is asked."""
        self.failures[method, REFUSED] += 1

    def figures(self, others: Iterable[NodeId], links: int) -> CallFigures:
        """`others`: the brokers that there are. What did not happen yet is told as zero."""
        methods = {*self.asked.latencies, *(method for method, _ in self.failures)}
        return CallFigures(
            asked=self.asked.figures(),
            served=self.served.figures(),
            failures={(m, reason): self.failures[m, reason] for m in methods for reason in REASONS},
            unanswered={node: self.unanswered[node] for node in {*others, *self.unanswered}},
            links=links,
        )


class Asking:
    """While a call is under way."""

    __slots__ = ("_began", "_counts", "_method")

    def __init__(self, counts: CallCounts, method: str) -> None:
        self._counts = counts
        self._method = method
        self._began = 0.0

    def __enter__(self) -> None:
        self._counts.asked.in_flight += 1
        self._began = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        counts = self._counts
        counts.asked.in_flight -= 1
        if kind is None:
            counts.asked.latencies[self._method].observe(time.perf_counter() - self._began)
        elif issubclass(kind, RequestTimedOut):
            counts.failures[self._method, TIMED_OUT] += 1
        elif issubclass(kind, BrokerUnreachable):
            counts.failures[self._method, UNREACHABLE] += 1


class Serving:
    """While a call of another broker is carried out."""

    __slots__ = ("_began", "_counts", "_method")

    def __init__(self, counts: CallCounts, method: str) -> None:
        self._counts = counts.served
        self._method = method
        self._began = 0.0

    def __enter__(self) -> None:
        self._counts.in_flight += 1
        self._began = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        self._counts.in_flight -= 1
        self._counts.latencies[self._method].observe(time.perf_counter() - self._began)
