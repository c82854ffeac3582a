"""Metric families in a line each."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from goqueue.model.measuring.histograms import HistogramFigures

# What makes the families of figures that were read; runs in a thread.
Families = Callable[[], Iterable[Metric]]

Labels = tuple[str, ...]


def gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(name, doc, value=value)


def counter(name: str, doc: str, value: float) -> Metric:
    return CounterMetricFamily(name, doc, value=value)


def gauges(
    name: str, doc: str, labels: Sequence[str], values: Iterable[tuple[Labels, float]]
) -> Metric:
    return _filled(GaugeMetricFamily(name, doc, labels=labels), values)


def counters(
    name: str, doc: str, labels: Sequence[str], values: Iterable[tuple[Labels, float]]
) -> Metric:
    """`_total` is put behind the name."""
    return _filled(CounterMetricFamily(name, doc, labels=labels), values)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[Labels, float]]
) -> Metric:
    for of, value in values:
        family.add_metric(of, value)
    return family


def histograms(
    name: str, doc: str, labels: Sequence[str], values: Iterable[tuple[Labels, HistogramFigures]]
) -> Metric:
    family = HistogramMetricFamily(name, doc, labels=labels)
    for of, figures in sorted(values):
        ends = [*(repr(float(bound)) for bound in figures.bounds), "+Inf"]
        buckets = list(zip(ends, accumulate(figures.counts), strict=True))
        family.add_metric(of, buckets, figures.sum)
    return family


def histogram(name: str, doc: str, figures: HistogramFigures) -> Metric:
    return histograms(name, doc, (), [((), figures)])
