"""What the controller decides by, taken from the metadata image. Pure, for any thread."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from goqueue.model.companions import KINDS, companion_of, kind_and_owner
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.model.topics import PartitionView, TopicView
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.planning import ClusterView, Registered, Stored
from goqueue.state.metadata_image import MetadataImage


def cluster_view(
    image: MetadataImage,
    *,
    only: Collection[TopicPartition] | None = None,
    log_ends: Mapping[TopicPartition, Mapping[Member, LogEnd]],
) -> ClusterView:
    """`only`: the partitions to look at, and with them their companions; all of them for None."""
    owners = companions(image, only)
    chosen = (
        _all_partitions(image)
        if only is None
        else _some_partitions(image, {*only, *owners, *owners.values()})
    )
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
        owners,
        image.feature_level,
    )


def companions(
    image: MetadataImage, only: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, TopicPartition]:
    """Partitions that belong to others, and to which; all of them, or `only` the families of
    these."""
    if only is None:
        return dict(_belonging(image, image.topics.values()))
    names = {partition.topic for partition in only}
    owners = [owner for owner in (_owner(image, name) for name in names) if owner is not None]
    found = [image.topics.get(companion_of(kind, owner.id)) for owner in owners for kind in KINDS]
    numbers = {partition.partition for partition in only}
    return {
        companion: owner
        for companion, owner in _belonging(image, [one for one in found if one is not None])
        if owner.partition in numbers
    }


def _owner(image: MetadataImage, name: str) -> TopicView | None:
    """The topic that a companion belongs to; any other topic itself."""
    companion = kind_and_owner(name)
    return image.topics.get(name) if companion is None else image.topics_by_id.get(companion[1])


def _belonging(
    image: MetadataImage, topics: Iterable[TopicView]
) -> Iterator[tuple[TopicPartition, TopicPartition]]:
    """The partitions of those topics that are companions, each with its owner."""
    for topic in topics:
        companion = kind_and_owner(topic.name)
        owner = None if companion is None else image.topics_by_id.get(companion[1])
        if owner is not None:
            for mine, whose in zip(topic.partitions, owner.partitions, strict=False):
                yield (
                    TopicPartition(topic.name, mine.index),
                    TopicPartition(owner.name, whose.index),
                )


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
