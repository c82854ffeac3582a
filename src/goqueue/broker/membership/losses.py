"""What a folder turns out to have lost when its logs are opened, compared with the metadata."""

import logging
from collections.abc import Iterable

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import NodeId
from goqueue.model.replication import PartitionState
from goqueue.state.metadata_image import MetadataImage
from goqueue.storage.data_directory import PartitionFolder

logger = logging.getLogger(__name__)


def has_lost(
    node_id: NodeId,
    image: MetadataImage,
    stored: Iterable[PartitionFolder],
    hosted: HostedPartitions,
) -> bool:
    """Whether a log in which this node counts is damaged, cannot be opened or was not there.

    `stored` are the folders before missing ones were made.
    """
    there = {(folder.tp.topic, folder.tp.partition, folder.topic_id) for folder in stored}
    for topic in image.topics.values():
        for view in topic.partitions:
            if not _counts_in(view.state, node_id):
                continue
            partition = hosted.get(topic.name, view.index)
            is_there = (topic.name, view.index, topic.id) in there
            if partition is None or not is_there or partition.log.damage:
                logger.warning(
                    "%s-%d is not as it was: this node leaves the in-sync sets and is filled again",
                    topic.name,
                    view.index,
                )
                return True
    return False


def check_lineage(image: MetadataImage, hosted: HostedPartitions) -> None:
    """Refuse metadata that is older than the logs: epochs that it gives out were used before."""
    for partition in hosted:
        topic = image.topics[partition.name.topic]
        known = topic.partitions[partition.name.partition].leader_epoch
        if partition.log.epochs.latest > known:
            raise DataDirectoryError(
                f"{partition.name} has leader epoch {partition.log.epochs.latest} on disk, but the "
                f"metadata knows {known} at most: etcd was restored from an older backup; restore "
                "the newest one, or start with an empty --data-dir and lose what only this disk has"
            )


def _counts_in(state: PartitionState, node_id: NodeId) -> bool:
    return any(member.node == node_id for member in (*state.in_sync, *state.eligible))
