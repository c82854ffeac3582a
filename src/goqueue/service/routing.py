"""Who leads what an operation is about, for services that must know it before they call the broker.

Whether this broker leads a partition is decided in one place, `LedPartitions`: every operation
finds its partition there, of a topic or of the broker's state, and refuses what others lead. A
cluster of one leads everything: what is not here is nowhere.
"""

from typing import Any

from goqueue.broker.node import Node
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.names import NodeId


class Routing:
    def __init__(self, node: Node) -> None:
        self._node = node

    def check_queue_owner(self, topic: str) -> None:
        """What a whole queue remembers (deduplication ids, move tasks) is with its partition 0."""
        self._node.led.find(topic, 0)

    def group_coordinator(self, group: str) -> NodeId:
        return self._coordinator(self._node.groups.state, group)

    def transaction_coordinator(self, transactional_id: str) -> NodeId:
        return self._coordinator(self._node.transactions.state, transactional_id)

    def _coordinator(self, state: StateTopic[Any], key: str) -> NodeId:
        topic = self._node.image.topics.get(state.name)
        if topic is None:
            return self._node.node_id  # whoever is asked first makes the topic
        return topic.partitions[state.partition_for(key)].leader
