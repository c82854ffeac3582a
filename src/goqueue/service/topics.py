"""Topics and their settings: made, listed, described, changed, deleted."""

from uuid import UUID

from goqueue.broker.node import Node
from goqueue.service.access import Access


class TopicService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access

    def name_of(self, topic_id: UUID) -> str:
        """Whose id it is, for a request that names topics by id.

        No right is asked for, as rights are by name: the caller of an operation gets the name only
        if the operation itself tells it.
        """
        return str(self._node.topic_by_id(topic_id).name)
