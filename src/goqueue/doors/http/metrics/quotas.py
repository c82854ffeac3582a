"""Quotas: who uses how much of them, and how long clients were held back."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counters, gauges
from goqueue.model.measuring.quotas import QuotaFigures


def families(figures: QuotaFigures) -> Iterable[Metric]:
    yield counters(
        "goqueue_quota_throttle_seconds",
        "Time that clients beyond their quotas were told to wait.",
        ("quota",),
        (((kind.value,), seconds) for kind, seconds in figures.throttled_seconds.items()),
    )
    yield gauges(
        "goqueue_quota_usage_ratio",
        "What is used of a quota per second by what may be; the hundred highest.",
        ("quota", "user", "client_id", "ip", "tenant"),
        (
            ((each.kind.value, *(part or "" for part in each.owner)), each.ratio)
            for each in figures.usage
        ),
    )
