"""How the cluster is doing, read from its metadata."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from goqueue.model.cluster import (
    ClusterState,
    Health,
    NamedPartition,
    NodeFacts,
    NodeStatus,
    PartitionCounts,
    Trouble,
)
from goqueue.model.names import NodeId
from goqueue.model.topics import PartitionView
from goqueue.state.membership.cordons import cordoned
from goqueue.state.metadata_image import NO_CONTROLLER, MetadataImage


def partitions_of(image: MetadataImage) -> Iterator[NamedPartition]:
    """All of them, by topic and number."""
    for name in sorted(image.topics):
        for view in image.topics[name].partitions:
            yield NamedPartition(name, view)


def is_offline(view: PartitionView) -> bool:
    """Nobody leads it, or one that is gone does, until another is elected."""
    return not view.state.has_leader or view.leader in view.offline


def is_under_min_in_sync(view: PartitionView) -> bool:
    return len(view.state.in_sync) < view.state.quorum


def is_under_replicated(view: PartitionView) -> bool:
    """Copies that a move adds do not count: nothing is missing while they are made."""
    move = view.state.move
    if move is None:
        return len(view.state.in_sync) < len(view.replicas)
    return len(set(view.isr).intersection(move.before)) < len(move.before)


def trouble(view: PartitionView) -> Trouble | None:
    """The worst that is wrong with a partition."""
    if is_offline(view):
        return Trouble.OFFLINE
    if is_under_min_in_sync(view):
        return Trouble.UNDER_MIN_IN_SYNC
    if is_under_replicated(view):
        return Trouble.UNDER_REPLICATED
    return None


def has(view: PartitionView, wrong: Trouble) -> bool:
    if wrong is Trouble.OFFLINE:
        return is_offline(view)
    if wrong is Trouble.UNDER_MIN_IN_SYNC:
        return is_under_min_in_sync(view)
    return is_under_replicated(view)


def counts(image: MetadataImage) -> PartitionCounts:
    total = offline = under_min = under_replicated = not_preferred = 0
    for topic in image.topics.values():
        for view in topic.partitions:
            total += 1
            offline += is_offline(view)
            under_min += is_under_min_in_sync(view)
            under_replicated += is_under_replicated(view)
            not_preferred += view.state.has_leader and view.leader != view.replicas[0]
    return PartitionCounts(
        partitions=total,
        offline=offline,
        under_min_in_sync=under_min,
        under_replicated=under_replicated,
        not_preferred=not_preferred,
    )


def cluster_state(
    image: MetadataImage, *, cluster_id: str, store_failure: str | None
) -> ClusterState:
    return ClusterState(
        cluster_id=cluster_id,
        is_cluster=bool(image.nodes),
        controller_id=image.controller_id,
        feature_level=image.feature_level,
        revision=image.revision,
        store_failure=store_failure,
        nodes=_nodes(image),
        counts=counts(image),
    )


def health(state: ClusterState, *, replaying: int = 0) -> tuple[Health, list[str]]:
    """How it is, and everything that speaks against its being healthy.

    `replaying` partitions the broker that is asked could lead only after a while: it has not heard
    yet what they remember.
    """
    found, unavailable = state.counts, []
    if found.offline:
        unavailable.append(f"{found.offline} partitions have no leader")
    if found.under_min_in_sync:
        unavailable.append(
            f"{found.under_min_in_sync} partitions have too few replicas in sync for acks=all"
        )
    degraded = []
    if found.under_replicated:
        degraded.append(f"{found.under_replicated} partitions have replicas that are not in sync")
    for status, words in (
        (NodeStatus.DEAD, "nodes that are down"),
        (NodeStatus.SUSPECT, "nodes that others cannot reach"),
    ):
        if nodes := [node.node_id for node in state.nodes if node.status is status]:
            degraded.append(f"{words}: {', '.join(map(str, nodes))}")
    if replaying:
        degraded.append(f"this broker is not ready yet to take over {replaying} partitions")
    if state.controller_id == NO_CONTROLLER:
        degraded.append("there is no controller: nobody elects leaders")
    if state.store_failure is not None:
        degraded.append(f"the metadata store does not answer: {state.store_failure}")
    reasons = [*unavailable, *degraded]
    if unavailable:
        return Health.UNAVAILABLE, reasons
    return (Health.DEGRADED if degraded else Health.HEALTHY), reasons


def _nodes(image: MetadataImage) -> list[NodeFacts]:
    states = [view.state for topic in image.topics.values() for view in topic.partitions]
    leaders = Counter([state.leader for state in states])
    preferred = Counter([state.replicas[0] for state in states if state.replicas])
    replicas = Counter(chain.from_iterable(state.replicas for state in states))
    in_sync = Counter([member.node for state in states for member in state.in_sync])
    admitted, suspects, closed = image.admitted(), image.suspects(), cordoned(image)
    return [
        NodeFacts(
            node_id=node,
            status=_status(node, image, admitted, suspects),
            broker=image.brokers.get(node),
            is_controller=node == image.controller_id,
            is_cordoned=node in closed,
            leaders=leaders[node],
            preferred_leaders=preferred[node],
            replicas=replicas[node],
            lagging=replicas[node] - in_sync[node],
        )
        for node in sorted(image.nodes.keys() | image.brokers.keys())
    ]


def _status(
    node: NodeId, image: MetadataImage, admitted: dict[NodeId, int], suspects: set[NodeId]
) -> NodeStatus:
    if node not in image.brokers:
        return NodeStatus.DEAD
    if node in suspects:
        return NodeStatus.SUSPECT
    if node not in admitted:
        return NodeStatus.JOINING
    if node in image.nodes and image.nodes[node].record.is_draining:
        return NodeStatus.LEAVING
    return NodeStatus.ALIVE
