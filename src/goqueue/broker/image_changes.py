"""What a node does when the metadata changes: before it is seen, and after."""

from typing import TYPE_CHECKING

from goqueue.broker.topics.companions import reconfigured
from goqueue.state.metadata_image import ImageChanges, MetadataImage

if TYPE_CHECKING:
    from goqueue.broker.node import Node


async def prepare(node: "Node", changes: ImageChanges, image: MetadataImage) -> None:
    """Before a change is seen: whoever finds a topic in the image finds its partitions, too."""
    if node.cluster is not None:
        await node.cluster.prepare(image)
    for topic in changes.topics_deleted:
        await node.hosted.drop(topic)
    for name in changes.topics_grown:
        await node.hosted.host(image.topics[name])
    await node.hosted.follow_moves(changes.partitions_changed, image)
    if node.replication is not None:
        await node.replication.prepare(changes, image)


def react(node: "Node", changes: ImageChanges, image: MetadataImage) -> None:
    for topic in changes.topics_deleted:
        node.hosted.dropped(topic)
        node.queues.topic_deleted(topic)
        node.delays.topic_deleted(topic.id)
    for topic in reconfigured(changes, image):
        node.hosted.reconfigure(topic)
    node.draining.image_changed(changes)
    if changes.topics_deleted or changes.topics_grown or changes.topics_split:
        node.groups.topics_changed()
    if changes.broker_configs_changed:
        node.broker_configs.changed()
    if changes.group_configs_changed:
        node.groups.settings_changed()
    if changes.security_changed:
        node.security.changed()
    node.calls.image_changed(changes)
    if node.cluster is not None:
        node.cluster.image_changed(changes)
    if node.replication is not None:
        node.replication.image_changed(changes)
