"""Partitions: what comes in and goes out, offsets, size on disk, replicas."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.families import Labels, counters, gauge, gauges
from goqueue.model.measuring.figures import PartitionFigures

_Column = tuple[str, str, Callable[[PartitionFigures], float]]

# Every copy takes its place on a disk.
_OF_COPIES: Final[Sequence[_Column]] = (
    ("log_size_bytes", "Bytes on this broker's disk.", lambda p: p.log_size_bytes),
    ("log_segments", "Segments on this broker's disk.", lambda p: p.log_segments),
)
# What is so of a partition its leader tells, and nobody else.
_OF_LEADERS: Final[Sequence[_Column]] = (
    ("log_start_offset", "First offset that is kept.", lambda p: p.log_start_offset),
    ("log_end_offset", "Offset of the next message.", lambda p: p.log_end_offset),
    ("high_watermark", "Offset up to which messages are readable.", lambda p: p.high_watermark),
)
_COUNTERS: Final[Sequence[_Column]] = (
    ("messages_in", "Messages appended since the start.", lambda p: p.messages_in),
    ("bytes_in", "Bytes appended since the start.", lambda p: p.bytes_in),
    ("messages_out", "Messages read since the start.", lambda p: p.messages_out),
    ("bytes_out", "Bytes read since the start.", lambda p: p.bytes_out),
)
_REPLICAS: Final[Sequence[tuple[str, str, Callable[[PartitionFigures], int | None]]]] = (
    ("replicas", "Brokers that should have a copy.", lambda p: p.replicas),
    ("in_sync_replicas", "Brokers whose copy is complete.", lambda p: p.in_sync_replicas),
)
_LABELS: Final = ("topic", "partition")


def families(partitions: Sequence[PartitionFigures]) -> Iterable[Metric]:
    shown = partitions[: bounds.PARTITIONS_WITH_SERIES_MAX]
    yield gauge("goqueue_partitions", "Partitions on this broker.", len(partitions))
    yield gauge(
        "goqueue_partitions_without_series",
        "Partitions beyond the bound, which have no series of their own.",
        len(partitions) - len(shown),
    )
    yield gauge(
        "goqueue_log_size_bytes",
        "Bytes of all partitions on disk.",
        sum(partition.log_size_bytes for partition in partitions),
    )
    yield from _series(shown)


def _series(shown: Sequence[PartitionFigures]) -> Iterable[Metric]:
    led = [each for each in shown if each.is_led]
    labels, led_labels = _labels(shown), _labels(led)
    for name, doc, of in _OF_COPIES:
        values = zip(labels, map(of, shown), strict=True)
        yield gauges(f"goqueue_partition_{name}", doc, _LABELS, values)
    for name, doc, of in _OF_LEADERS:
        values = zip(led_labels, map(of, led), strict=True)
        yield gauges(f"goqueue_partition_{name}", doc, _LABELS, values)
    for name, doc, of in _COUNTERS:
        values = zip(labels, map(of, shown), strict=True)
        yield counters(f"goqueue_partition_{name}", doc, _LABELS, values)
    for name, doc, of_replicas in _REPLICAS:
        pairs = zip(led_labels, map(of_replicas, led), strict=True)
        known = ((label, count) for label, count in pairs if count is not None)
        yield gauges(f"goqueue_partition_{name}", doc, _LABELS, known)


def _labels(partitions: Sequence[PartitionFigures]) -> list[Labels]:
    return [(each.topic, str(each.partition)) for each in partitions]
