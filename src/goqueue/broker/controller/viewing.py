"""What the controller decides by, taken from the metadata image. Pure, for any thread."""

from collections.abc import Collection, Iterator, Mapping

from goqueue.model.companions import kind_and_owner
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.model.topics import PartitionView
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.planning import ClusterView, Registered, Stored
from goqueue.state.metadata_image import MetadataImage


def cluster_view(
    image: MetadataImage,
    *,
    only: Collection[TopicPartition] | None = None,
    log_ends: Mapping[TopicPartition, Mapping[Member, LogEnd]],
) -> ClusterView:
    """`only`: the partitions to look at; all of them for None."""
    chosen = _all_partitions(image) if only is None else _some_partitions(image, only)
    return ClusterView(
        {
            partition: Stored(view.state, view.revision)
            for partition, view in chosen
            if view.is_known
        },
        {
            node: Registered(broker.registration, broker.epoch)
            for node, broker in image.brokers.items()
            if broker.registration is not None
        },
        {node: (known.record, known.revision) for node, known in image.nodes.items()},
        log_ends,
    )


def companions(image: MetadataImage) -> dict[TopicPartition, TopicPartition]:
    """Partitions that belong to others, and to which."""
    found: dict[TopicPartition, TopicPartition] = {}
    for topic in image.topics.values():
        companion = kind_and_owner(topic.name)
        owner = None if companion is None else image.topics_by_id.get(companion[1])
        if owner is not None:
            for mine, whose in zip(topic.partitions, owner.partitions, strict=False):
                found[TopicPartition(topic.name, mine.index)] = TopicPartition(
                    owner.name, whose.index
                )
    return found


def moving(image: MetadataImage) -> set[TopicPartition]:
    """Partitions that are on their way to other brokers."""
    return {
        TopicPartition(topic.name, view.index)
        for topic in image.topics.values()
        for view in topic.partitions
        if view.state.move is not None
    }


def _all_partitions(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionView]]:
    for topic in image.topics.values():
        for view in topic.partitions:
            yield TopicPartition(topic.name, view.index), view


def _some_partitions(
    image: MetadataImage, only: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, PartitionView]]:
    for partition in only:
        topic = image.topics.get(partition.topic)
        if topic is not None and partition.partition < len(topic.partitions):
            yield partition, topic.partitions[partition.partition]
