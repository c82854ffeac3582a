"""Forgetting a node that does not come back."""

from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Compare, Delete, MetadataStore
from goqueue.model.errors import Conflict, PolicyViolation, UnknownNode
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys


async def forget_node(store: MetadataStore, follower: MetadataFollower, node_id: NodeId) -> None:
    """Nothing new is placed there. Its folder counts as an unknown one should it come back. What
    was set of it goes, too: another one of its number would be cordoned as it was."""
    image = follower.image
    known = image.nodes.get(node_id)
    if known is None:
        raise UnknownNode(f"there is no node {node_id}")
    if node_id in image.brokers:
        raise PolicyViolation(f"node {node_id} is running; stop it before it is forgotten")
    key = keys.node_key(node_id)
    done = await store.transact(
        [Compare.unchanged(key, known.revision), Compare.missing(keys.broker_key(node_id))],
        [Delete(key), Delete(keys.broker_config_key(node_id))],
    )
    if not done.succeeded:
        raise Conflict(f"node {node_id} has just come back; look again")
    await follower.applied(done.revision)
