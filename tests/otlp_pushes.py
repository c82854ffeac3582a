"""What clients push, made by OpenTelemetry's own classes rather than by our tables."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.metrics.v1 import metrics_pb2

pb: Any = metrics_pb2


def metrics_data(*metrics: Any) -> bytes:
    data = pb.MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.extend(metrics)
    serialized: bytes = data.SerializeToString()
    return serialized


def gauge(name: str, value: float, **attributes: str) -> Any:
    metric = pb.Metric(name=name, unit="ms", description="ignored")
    _add(metric.gauge.data_points.add(as_double=value), attributes)
    return metric


def total(
    name: str,
    value: int,
    attributes: Mapping[str, str] | None = None,
    *,
    is_delta: bool = False,
    is_monotonic: bool = True,
) -> Any:
    metric = pb.Metric(name=name)
    metric.sum.is_monotonic = is_monotonic
    metric.sum.aggregation_temporality = 1 if is_delta else 2
    _add(metric.sum.data_points.add(as_int=value), attributes or {})
    return metric


def histogram(name: str, values_count: int, values_sum: float) -> Any:
    metric = pb.Metric(name=name)
    metric.histogram.aggregation_temporality = 2
    metric.histogram.data_points.add(count=values_count, sum=values_sum, bucket_counts=[1, 2])
    return metric


def _add(point: Any, attributes: Mapping[str, str]) -> None:
    for key, value in attributes.items():
        point.attributes.add(key=key).value.string_value = value
