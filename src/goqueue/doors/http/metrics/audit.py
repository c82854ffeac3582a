"""The audit: what was noted, what was lost of it, and log-ins that failed."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counters
from goqueue.model.audit import AuditFigures


def families(figures: AuditFigures) -> Iterable[Metric]:
    yield counters(
        "goqueue_audit_events",
        "Log-ins, refusals and administrative changes, by event and outcome.",
        ("event", "outcome"),
        figures.events.items(),
    )
    yield counters(
        "goqueue_audit_dropped",
        "Entries of the audit that could not be written.",
        ("target",),
        (((name,), count) for name, count in figures.dropped.items()),
    )
    yield counters(
        "goqueue_authentication_failures",
        "Log-ins that failed.",
        ("door",),
        (((door,), count) for door, count in figures.failed_log_ins.items()),
    )
