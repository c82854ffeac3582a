"""Partitions: what comes in and goes out, offsets, size on disk, replicas."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.families import Families, counters, gauge, gauges
from goqueue.model.topics import PartitionView
from goqueue.state.metadata_image import MetadataImage

_Column = tuple[str, str, Callable[[Partition], float]]

_GAUGES: Final[Sequence[_Column]] = (
    ("log_size_bytes", "Bytes on disk.", lambda p: p.log.size_bytes),
    ("log_segments", "Segments on disk.", lambda p: p.log.segment_count),
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
_REPLICAS: Final[Sequence[tuple[str, str, Callable[[PartitionView], float]]]] = (
    ("replicas", "Brokers that should have a copy.", lambda view: len(view.replicas)),
    ("in_sync_replicas", "Brokers whose copy is complete.", lambda view: len(view.isr)),
)
_LABELS: Final = ("topic", "partition")


def read(broker: Node) -> Families:
    partitions, image = tuple(broker.hosted), broker.image

    def families() -> Iterable[Metric]:
        # Plain numbers, which a thread may read as well.
        ordered = sorted(partitions, key=lambda partition: partition.name)
        shown = ordered[: bounds.PARTITIONS_WITH_SERIES_MAX]
        yield gauge("goqueue_partitions", "Partitions on this broker.", len(ordered))
        yield gauge(
            "goqueue_partitions_without_series",
            "Partitions beyond the bound, which have no series of their own.",
            len(ordered) - len(shown),
        )
        yield gauge(
            "goqueue_log_size_bytes",
            "Bytes of all partitions on disk.",
            sum(partition.log.size_bytes for partition in ordered),
        )
        yield from _series(shown, image)

    return families


def _series(shown: Sequence[Partition], image: MetadataImage) -> Iterable[Metric]:
    labels = [(p.name.topic, str(p.name.partition)) for p in shown]
    for name, doc, of in _GAUGES:
        values = zip(labels, map(of, shown), strict=True)
        yield gauges(f"goqueue_partition_{name}", doc, _LABELS, values)
    for name, doc, of in _COUNTERS:
        values = zip(labels, map(of, shown), strict=True)
        yield counters(f"goqueue_partition_{name}", doc, _LABELS, values)
    views = [_view(image, partition) for partition in shown]
    for name, doc, of_view in _REPLICAS:
        known = (
            (label, of_view(view))
            for label, view in zip(labels, views, strict=True)
            if view is not None
        )
        yield gauges(f"goqueue_partition_{name}", doc, _LABELS, known)


def _view(image: MetadataImage, partition: Partition) -> PartitionView | None:
    """None while a topic is being made or deleted."""
    topic = image.topics.get(partition.name.topic)
    if topic is None or partition.name.partition >= len(topic.partitions):
        return None
    return topic.partitions[partition.name.partition]
