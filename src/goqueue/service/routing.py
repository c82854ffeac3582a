"""Who leads what an operation is about, for services that must know it before they call the broker.

Whether this broker leads a partition is decided in one place, `LedPartitions`: every operation
finds its partition there, of a topic or of the broker's state, and refuses what others lead. A
node of one leads everything: what is not here is nowhere.
"""

from base64 import urlsafe_b64decode
from typing import Any
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.names import NodeId


class Routing:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def group_coordinator(self, group: str) -> NodeId:
        return await self._coordinator(self._node.groups.state, group)

    async def transaction_coordinator(self, transactional_id: str) -> NodeId:
        return await self._coordinator(self._node.transactions.state, transactional_id)

    def share_coordinator(self, key: str) -> NodeId:
        """Of `group:topic id:partition`: what a share group has acknowledged is kept where the
        partition is led. Of one that is not there, any broker may say so.
        """
        _, topic_id, index = key.rsplit(":", 2)
        found = UUID(bytes=urlsafe_b64decode(topic_id + "=="))
        topic = self._node.image.topics_by_id.get(found)
        if topic is None or int(index) >= len(topic.partitions):
            return self._node.node_id
        return topic.partitions[int(index)].leader

    async def _coordinator(self, state: StateTopic[Any], key: str) -> NodeId:
        if not state.exists:
            if len(self._node.image.brokers) <= 1:
                return self._node.node_id  # the first that is kept there makes the topic
            await state.ensure()
        topic = self._node.image.topics[state.name]
        return topic.partitions[state.partition_for(key)].leader
