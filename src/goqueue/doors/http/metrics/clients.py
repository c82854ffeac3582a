"""What Kafka clients push of themselves (KIP-714).

All their metrics are in two families, with the metric's name as a label: names are the clients',
and a family for each would be without bound.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.bounds import CLIENT_SERIES_MAX
from goqueue.doors.http.metrics.families import counter, counters, gauge
from goqueue.model.client_metrics.messages import (
    ClientFigures,
    ClientView,
    MetricKind,
    TelemetryError,
)

_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9_]")
_FIRST: Final = ("client_id", "client_instance_id", "metric")


class _Sample(NamedTuple):
    kind: MetricKind
    labels: dict[str, str]
    value: float


def families(figures: ClientFigures) -> Iterable[Metric]:
    yield gauge(
        "goqueue_client_instances",
        "Kafka clients that push metrics, or are to.",
        len(figures.clients),
    )
    yield counters(
        "goqueue_client_pushes",
        "Pushes of metrics by Kafka clients, by how they ended.",
        ("result",),
        (((_result(error),), count) for error, count in figures.pushes.items()),
    )
    yield counter(
        "goqueue_client_points_left_out",
        "Values that clients pushed beyond what is kept.",
        figures.left_out,
    )
    samples = [sample for client in figures.clients for sample in _samples(client)]
    shown = samples[:CLIENT_SERIES_MAX]
    yield gauge(
        "goqueue_client_metrics_without_series",
        "Values of clients that are left out here; GET /clients/metrics has them.",
        len(samples) - len(shown),
    )
    gauges = Metric("goqueue_client_value", "What clients pushed last.", "gauge")
    totals = Metric("goqueue_client_accumulated", "Totals that clients pushed last.", "counter")
    for sample in shown:
        if sample.kind is MetricKind.COUNTER:
            totals.add_sample(f"{totals.name}_total", sample.labels, sample.value)
        else:
            gauges.add_sample(gauges.name, sample.labels, sample.value)
    yield gauges
    yield totals


def _result(error: TelemetryError) -> str:
    return "taken" if error is TelemetryError.NONE else error.value


def _samples(view: ClientView) -> Iterator[_Sample]:
    """Names of labels that are the same without what Prometheus does not take: one is kept, so no
    two series are the same."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    for name, series in sorted(view.series.items()):
        labels = {_label(key): value for key, value in name.attributes if _label(key) not in _FIRST}
        labels |= {
            "client_id": view.client.client_id,
            "client_instance_id": view.client.instance,
            "metric": name.metric,
        }
        identity = tuple(sorted(labels.items()))
        if identity not in seen:
            seen.add(identity)
            yield _Sample(series.kind, labels, series.value)


def _label(key: str) -> str:
    """Labels that begin with __ are Prometheus' own, and one cannot begin with a digit."""
    plain = _NOT_IN_LABELS.sub("_", key).lstrip("_")
    return plain if plain[:1].isalpha() else f"_{plain}"
