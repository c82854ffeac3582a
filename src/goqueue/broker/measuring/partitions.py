"""Figures of partitions and of the cluster. Plain numbers, which a thread may read as well."""

from collections.abc import Iterable

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.measuring.figures import PartitionFigures
from goqueue.model.topics import PartitionView
from goqueue.state.metadata_image import MetadataImage


def read_partitions(
    hosted: Iterable[HostedPartition], image: MetadataImage
) -> list[PartitionFigures]:
    """By topic and number."""
    ordered = sorted(hosted, key=lambda partition: partition.name)
    return [_figures(partition, _view(image, partition)) for partition in ordered]


def _figures(partition: HostedPartition, view: PartitionView | None) -> PartitionFigures:
    log = partition.log
    return PartitionFigures(
        *partition.name,
        partition.led is not None,
        log.size_bytes,
        log.segment_count,
        partition.log_start_offset,
        partition.log_end_offset,
        partition.high_watermark,
        partition.counts.messages_in,
        partition.counts.bytes_in,
        partition.counts.messages_out,
        partition.counts.bytes_out,
        None if view is None else len(view.replicas),
        None if view is None else len(view.isr),
    )


def _view(image: MetadataImage, partition: HostedPartition) -> PartitionView | None:
    """None while a topic is being made or deleted."""
    topic = image.topics.get(partition.name.topic)
    if topic is None or partition.name.partition >= len(topic.partitions):
        return None
    return topic.partitions[partition.name.partition]
