"""Topics read as queues: receive, settle, dead letters."""

from goqueue.broker.node import Node
from goqueue.service.access import Access
from goqueue.service.routing import Routing


class QueueService:
    def __init__(self, node: Node, access: Access, routing: Routing) -> None:
        self._node = node
        self._access = access
        self._routing = routing
