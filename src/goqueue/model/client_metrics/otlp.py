"""Reading what clients push: `MetricsData` of OpenTelemetry's protocol (OTLP).

Field names and numbers are those of OpenTelemetry's `metrics.proto`, `resource.proto` and
`common.proto`. What comes here was sent by anyone: how much of it is looked at is bounded, and so
is every text that is kept.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from goqueue.model.client_metrics.messages import MetricKind, Point, SeriesName
from goqueue.model.errors import InvalidRequest
from goqueue.model.protobuf_messages import MessageTable, message_classes

# Resources, metrics, points and attributes: some 30 ms of work.
OBJECTS_MAX: Final = 20_000
METRIC_NAME_MAX: Final = 128
ATTRIBUTES_MAX: Final = 6
ATTRIBUTE_NAME_MAX: Final = 64
ATTRIBUTE_VALUE_MAX: Final = 128

_DELTA: Final = 1
_MESSAGES: Final[MessageTable] = {
    "MetricsData": {"resource_metrics": (1, "*ResourceMetrics")},
    "ResourceMetrics": {"scope_metrics": (2, "*ScopeMetrics")},
    "ScopeMetrics": {"metrics": (2, "*Metric")},
    "Metric": {
        "name": (1, "string"),
        "gauge": (5, "?Gauge"),
        "sum": (7, "?Sum"),
        "histogram": (9, "?Histogram"),
    },
    "Gauge": {"data_points": (1, "*NumberDataPoint")},
    "Sum": {
        "data_points": (1, "*NumberDataPoint"),
        "aggregation_temporality": (2, "int32"),
        "is_monotonic": (3, "bool"),
    },
    "Histogram": {
        "data_points": (1, "*HistogramDataPoint"),
        "aggregation_temporality": (2, "int32"),
    },
    "NumberDataPoint": {
        "as_double": (4, "?double"),
        "as_int": (6, "?sfixed64"),
        "attributes": (7, "*KeyValue"),
    },
    "HistogramDataPoint": {
        "count": (4, "fixed64"),
        "sum": (5, "double"),
        "attributes": (9, "*KeyValue"),
    },
    "KeyValue": {"key": (1, "string"), "value": (2, "AnyValue")},
    # Lists and maps are not read, so that nothing here is nested without end.
    "AnyValue": {
        "string_value": (1, "?string"),
        "bool_value": (2, "?bool"),
        "int_value": (3, "?int64"),
        "double_value": (4, "?double"),
    },
}
_CLASSES: Final = message_classes("goqueue.otlp", _MESSAGES)


class Decoded(NamedTuple):
    points: list[Point]
    # There was more than is looked at.
    is_cut: bool


class _Enough(Exception):
    """The bound on objects is reached."""


class _Budget:
    def __init__(self) -> None:
        self._left = OBJECTS_MAX

    def each(self, objects: Iterable[Any]) -> Iterator[Any]:
        for each in objects:
            self._left -= 1
            if self._left < 0:
                raise _Enough
            yield each


def decode_metrics(data: bytes) -> Decoded:
    """Raises `InvalidRequest` for what is no `MetricsData`."""
    message = _CLASSES["MetricsData"]()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"metrics: not OTLP's MetricsData: {error}") from None
    points: list[Point] = []
    budget = _Budget()
    try:
        for resource in budget.each(message.resource_metrics):
            for scope in budget.each(resource.scope_metrics):
                for metric in budget.each(scope.metrics):
                    points.extend(_points(metric, budget))
    except _Enough:
        return Decoded(points, is_cut=True)
    return Decoded(points, is_cut=False)


def _points(metric: Any, budget: _Budget) -> Iterator[Point]:
    name = metric.name[:METRIC_NAME_MAX]
    match metric.WhichOneof("chosen"):
        case "gauge":
            for point in budget.each(metric.gauge.data_points):
                yield Point(_series(name, point, budget), MetricKind.GAUGE, _number(point))
        case "sum":
            total = metric.sum
            kind = MetricKind.COUNTER if total.is_monotonic else MetricKind.GAUGE
            is_delta = total.aggregation_temporality == _DELTA
            for point in budget.each(total.data_points):
                yield Point(_series(name, point, budget), kind, _number(point), is_delta)
        case "histogram":
            is_delta = metric.histogram.aggregation_temporality == _DELTA
            for point in budget.each(metric.histogram.data_points):
                for part in ("count", "sum"):
                    series = _series(f"{name}.{part}", point, budget)
                    yield Point(series, MetricKind.COUNTER, float(getattr(point, part)), is_delta)


def _number(point: Any) -> float:
    if point.WhichOneof("chosen") == "as_int":
        return float(point.as_int)
    return float(point.as_double)


def _series(metric: str, point: Any, budget: _Budget) -> SeriesName:
    attributes: dict[str, str] = {}
    for each in budget.each(point.attributes):
        if len(attributes) < ATTRIBUTES_MAX:
            attributes[each.key[:ATTRIBUTE_NAME_MAX]] = _text(each.value)[:ATTRIBUTE_VALUE_MAX]
    return SeriesName(metric, tuple(sorted(attributes.items())))


def _text(value: Any) -> str:
    chosen = value.WhichOneof("chosen")
    return "" if chosen is None else str(getattr(value, chosen))
