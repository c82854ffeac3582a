"""Topics read and written by offset: produce, fetch, look up offsets, delete records."""

from goqueue.broker.node import Node
from goqueue.service.access import Access
from goqueue.service.routing import Routing


class LogService:
    def __init__(self, node: Node, access: Access, routing: Routing) -> None:
        self._node = node
        self._access = access
        self._routing = routing
