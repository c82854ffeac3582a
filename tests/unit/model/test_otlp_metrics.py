"""Reading what clients push, beside OpenTelemetry's own classes; and what is too much of it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.client_metrics import otlp
from goqueue.model.client_metrics.messages import MetricKind, Point, SeriesName
from goqueue.model.client_metrics.otlp import Decoded, decode_metrics
from goqueue.model.errors import InvalidRequest
from tests.otlp_pushes import gauge, histogram, metrics_data, pb, total

GAUGE, COUNTER = MetricKind.GAUGE, MetricKind.COUNTER


def test_gauges_totals_and_histograms() -> None:
    data = metrics_data(
        gauge("queue.time.avg", 1.5, topic="a", node="2"),
        total("sent", 7),
        total("sent.now", 3, is_delta=True),
        total("open", 2, is_monotonic=False),
        histogram("latency", 3, 4.5),
    )
    assert decode_metrics(data) == Decoded(
        [
            Point(SeriesName("queue.time.avg", (("node", "2"), ("topic", "a"))), GAUGE, 1.5),
            Point(SeriesName("sent", ()), COUNTER, 7.0),
            Point(SeriesName("sent.now", ()), COUNTER, 3.0, is_delta=True),
            Point(SeriesName("open", ()), GAUGE, 2.0),
            Point(SeriesName("latency.count", ()), COUNTER, 3.0),
            Point(SeriesName("latency.sum", ()), COUNTER, 4.5),
        ],
        is_cut=False,
    )
    assert decode_metrics(b"") == Decoded([], is_cut=False)


def test_values_of_attributes_are_texts() -> None:
    metric = gauge("a", 1.0)
    point = metric.gauge.data_points[0]
    point.attributes.add(key="number").value.int_value = 5
    point.attributes.add(key="flag").value.bool_value = True
    point.attributes.add(key="list").value.array_value.values.add(string_value="x")
    point.attributes.add(key="none")
    (found,) = decode_metrics(metrics_data(metric)).points
    assert found.name.attributes == (
        ("flag", "True"),
        ("list", ""),
        ("none", ""),
        ("number", "5"),
    )


def test_texts_are_cut_and_attributes_counted() -> None:
    many = {f"{n}" + "k" * 100: "v" * 1_000 for n in range(9)}
    (found,) = decode_metrics(metrics_data(gauge("n" * 1_000, 1.0, **many))).points
    assert len(found.name.metric) == otlp.METRIC_NAME_MAX
    assert len(found.name.attributes) == otlp.ATTRIBUTES_MAX
    assert all(
        len(key) == otlp.ATTRIBUTE_NAME_MAX and len(value) == otlp.ATTRIBUTE_VALUE_MAX
        for key, value in found.name.attributes
    )


def test_only_so_much_is_looked_at() -> None:
    found = decode_metrics(metrics_data(*(gauge(f"m{n}", 1.0) for n in range(otlp.OBJECTS_MAX))))
    assert found.is_cut
    assert 0 < len(found.points) < otlp.OBJECTS_MAX
    empty = pb.MetricsData()
    for _ in range(otlp.OBJECTS_MAX + 1):
        empty.resource_metrics.add()
    assert decode_metrics(empty.SerializeToString()) == Decoded([], is_cut=True)


@pytest.mark.parametrize("data", [b"\x0a", b"\xff" * 9, b"\x0a\x05\x12\x03\x12\x01", b"nonsense"])
def test_what_is_no_metrics_data(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^metrics: not OTLP's MetricsData"):
        decode_metrics(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        decode_metrics(data)


@given(st.data())
def test_damaged_metrics_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(metrics_data(gauge("a", 1.0, topic="b"), total("c", 3), histogram("d", 1, 2)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidRequest):
        decode_metrics(bytes(whole))
