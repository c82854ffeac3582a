"""Delayed messages."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.families import counters, gauge, gauges, histogram
from goqueue.model.delays import LATENESS_BOUNDS_MS, DelayStats
from goqueue.model.measuring.histograms import HistogramFigures


def families(stats: DelayStats, now_ms: int) -> Iterable[Metric]:
    shown = stats.topics[: bounds.TOPICS_WITH_SERIES_MAX]
    yield gauges(
        "goqueue_delayed_pending",
        "Delayed messages that wait.",
        ("topic",),
        (((topic.topic,), topic.pending) for topic in shown),
    )
    yield counters(
        "goqueue_delayed_delivered",
        "Delayed messages delivered since the start.",
        ("topic",),
        (((topic.topic,), topic.delivered) for topic in shown),
    )
    yield counters(
        "goqueue_delayed_cancelled",
        "Delayed messages cancelled since the start.",
        ("topic",),
        (((topic.topic,), topic.cancelled) for topic in shown),
    )
    yield gauge(
        "goqueue_delayed_topics_without_series",
        "Topics with delayed messages beyond the bound, which have no series.",
        len(stats.topics) - len(shown),
    )
    yield gauge(
        "goqueue_delayed_pending_bytes",
        "Size of all delayed messages that wait.",
        stats.pending_bytes,
    )
    yield gauge(
        "goqueue_delayed_in_memory",
        "Delayed messages whose place is in memory, the nearest in time.",
        stats.in_memory,
    )
    late_ms = 0 if stats.next_due_ms is None else max(0, now_ms - stats.next_due_ms)
    yield gauge(
        "goqueue_delayed_overdue_seconds",
        "For how long the first message that waits has been due; 0 if none is.",
        late_ms / 1000,
    )
    lateness = HistogramFigures(
        [bound_ms / 1000 for bound_ms in LATENESS_BOUNDS_MS],
        stats.lateness_counts,
        stats.lateness_sum_ms / 1000,
    )
    yield histogram(
        "goqueue_delayed_lateness_seconds",
        "From a delayed message's due time to its append.",
        lateness,
    )
