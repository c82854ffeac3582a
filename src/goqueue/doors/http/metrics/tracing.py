"""Message tracing: what is recorded, left out and exported."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counter, counters, gauge
from goqueue.model.tracing.figures import TracingFigures


def families(figures: TracingFigures) -> Iterable[Metric]:
    yield gauge("goqueue_tracing_enabled", "1 if messages are traced.", figures.is_enabled)
    yield counter("goqueue_tracing_spans_recorded", "Spans recorded.", figures.recorded_spans)
    yield counter(
        "goqueue_tracing_messages_left_out",
        "Messages that should have been traced and were too many.",
        figures.left_out_messages,
    )
    yield gauge(
        "goqueue_tracing_throttle_level",
        "How often the sampling rate is halved now to stay within its bound.",
        figures.throttle_level,
    )
    yield gauge("goqueue_tracing_ring_spans", "Spans in the ring.", figures.ring_spans)
    yield gauge("goqueue_tracing_files_bytes", "Size of the span files.", figures.file_bytes)
    yield counters(
        "goqueue_tracing_spans_exported",
        "Spans handed to an exporter.",
        ("exporter",),
        (((each.name,), each.exported) for each in figures.exports),
    )
    yield counters(
        "goqueue_tracing_spans_dropped",
        "Spans that an exporter could not take in time.",
        ("exporter",),
        (((each.name,), each.dropped) for each in figures.exports),
    )
