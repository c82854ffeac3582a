"""The one place where it is decided who leads what an operation is about.

A cluster of one leads everything: what is not here is nowhere.
"""

from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.model.names import NodeId


class Routing:
    def __init__(self, node: Node) -> None:
        self._node = node

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition if this broker leads it, or an error that makes clients look again."""
        return self._node.partition(topic, index)

    def group_coordinator(self, group: str) -> NodeId:
        return self._node.coordinator_of(group, transactional=False)

    def transaction_coordinator(self, transactional_id: str) -> NodeId:
        return self._node.coordinator_of(transactional_id, transactional=True)
