"""The one place where it is decided who leads what an operation is about.

A cluster of one leads everything: what is not here is nowhere.
"""

from typing import Any

from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.names import NodeId


class Routing:
    def __init__(self, node: Node) -> None:
        self._node = node

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition if this broker leads it, or an error that makes clients look again."""
        return self._node.led.find(topic, index)

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
