"""What brokers of a cluster ask each other to do: requests that came to another than the leader."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counter, counters, gauge, histograms
from goqueue.model.measuring.figures import CallFigures, CallSide


def families(figures: CallFigures) -> Iterable[Metric]:
    yield gauge("goqueue_call_links", "Open connections to other brokers.", figures.links)
    yield counters(
        "goqueue_call_failures",
        "Calls to other brokers without an answer, or with one that nothing was done.",
        ("method", "reason"),
        sorted(figures.failures.items()),
    )
    yield counters(
        "goqueue_unanswered_lists",
        "Lists of the whole cluster in which a broker was missing.",
        ("broker",),
        (((str(broker),), count) for broker, count in sorted(figures.unanswered.items())),
    )
    yield from _side("goqueue_call", "Calls to other brokers", figures.asked)
    yield from _side("goqueue_served_call", "Calls of other brokers", figures.served)


def _side(prefix: str, what: str, side: CallSide) -> Iterable[Metric]:
    yield histograms(
        f"{prefix}_duration_seconds",
        f"{what} by method; those that wait for messages wait here, too.",
        ("method",),
        (((method,), each) for method, each in side.latencies.items()),
    )
    yield gauge(f"{prefix}s_in_flight", f"{what} not answered yet.", side.in_flight)
    yield counter(f"{prefix}_request_bytes", f"{what}: bytes of requests.", side.request_bytes)
    yield counter(f"{prefix}_answer_bytes", f"{what}: bytes of answers.", side.answer_bytes)
