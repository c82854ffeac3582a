"""The cluster as a whole: its nodes, how it is doing, all its partitions, who decides."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from goqueue.broker.measuring.replication import standbys_behind
from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.cluster import ClusterHealth, ClusterState, NamedPartition, Trouble
from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.rights import Resource
from goqueue.model.topics import QuorumView
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited
from goqueue.state.cluster_condition import cluster_state, has, health, partitions_of, trouble

# Enough to see what is wrong; the pages of partitions have all of them.
TROUBLED_LISTED_MAX: Final = 100


class PartitionPage(NamedTuple):
    partitions: Sequence[NamedPartition]
    has_more: bool


class ClusterService:
    """What is read is one image, which nobody changes: long work is done beside the event loop."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access

    async def state(self, caller: Caller) -> ClusterState:
        self._access.describable_cluster(caller)
        return await asyncio.to_thread(self._state)

    async def health(self, caller: Caller) -> ClusterHealth:
        """Counts are of the whole cluster; partitions are listed for those who may know them."""
        self._access.describable_cluster(caller)
        image, visible = self._node.image, self._visible(caller)
        hosted = tuple(self._node.hosted)

        def read() -> ClusterHealth:
            state = self._state()
            found, reasons = health(state, replaying=standbys_behind(hosted))
            troubled = (
                (partition, wrong)
                for partition in partitions_of(image)
                if partition.topic in visible and (wrong := trouble(partition.view)) is not None
            )
            return ClusterHealth(
                health=found,
                reasons=reasons,
                counts=state.counts,
                troubled=list(islice(troubled, TROUBLED_LISTED_MAX)),
            )

        return await asyncio.to_thread(read)

    async def partitions(
        self,
        caller: Caller,
        *,
        topic: str | None,
        wrong: Trouble | None,
        after: tuple[str, int] | None,
        limit: int,
    ) -> PartitionPage:
        """Partitions by topic and number, from the one behind `after` on."""
        self._access.describable_cluster(caller)
        image, visible = self._node.image, self._visible(caller)
        if topic is not None:
            visible &= {topic}

        def read() -> PartitionPage:
            wanted = (
                partition
                for partition in partitions_of(image)
                if partition.topic in visible
                and (after is None or (partition.topic, partition.view.index) > after)
                and (wrong is None or has(partition.view, wrong))
            )
            found = list(islice(wanted, limit + 1))
            return PartitionPage(found[:limit], len(found) > limit)

        return await asyncio.to_thread(read)

    # --- deciding -------------------------------------------------------------------------

    @audited("leader.elect", Resource.CLUSTER, about="partitions", detail=("kind",))
    async def elect(
        self, caller: Caller, partitions: Sequence[TopicPartition] | None, kind: ElectionKind
    ) -> dict[TopicPartition, ElectionAnswer]:
        """Of all partitions for None. `NotController` where another broker decides."""
        self._access.alterable_cluster(caller)
        image = self._node.image
        if partitions is None:
            partitions = [
                TopicPartition(topic.name, part.index)
                for topic in image.topics.values()
                for part in topic.partitions
            ]
        if self._node.cluster is not None:
            return await self._node.cluster.controller.elect(partitions, kind)
        return {
            place: ElectionAnswer.NOT_NEEDED
            if place.topic in image.topics
            and 0 <= place.partition < len(image.topics[place.topic].partitions)
            else ElectionAnswer.UNKNOWN_PARTITION
            for place in partitions
        }

    @audited("node.forget", Resource.CLUSTER, about="node_id")
    async def forget_node(self, caller: Caller, node_id: NodeId) -> None:
        """A node that is down for good: nothing new is placed there, and nobody waits for it."""
        self._access.alterable_cluster(caller)
        await self._node.forget_node(node_id)

    def check_alterable(self, caller: Caller) -> None:
        """For changes that every broker refuses, whoever asks."""
        self._access.alterable_cluster(caller)

    def quorum(self, caller: Caller) -> QuorumView:
        """Who decides about the metadata, and how far it is known here."""
        self._access.describable_cluster(caller)
        image = self._node.image
        admitted = image.admitted()
        return QuorumView(
            image.controller_id,
            image.revision,
            tuple(each for each in image.brokers.values() if each.node_id in admitted),
        )

    # --- inside ---------------------------------------------------------------------------

    def _visible(self, caller: Caller) -> set[str]:
        return {name for name in self._node.image.topics if self._access.sees_topic(caller, name)}

    def _state(self) -> ClusterState:
        return cluster_state(
            self._node.image,
            cluster_id=self._node.cluster_id,
            store_failure=self._node.metadata_failure,
        )
