"""Sending to FIFO queues."""

from collections.abc import Sequence

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.fifo import FifoMessage, SentOnce
from goqueue.service.access import Access
from goqueue.service.routing import Routing


class FifoService:
    def __init__(self, node: Node, access: Access, routing: Routing) -> None:
        self._fifo = node.fifo
        self._access = access
        self._routing = routing

    async def send(
        self, caller: Caller, queue: str, messages: Sequence[FifoMessage]
    ) -> list[SentOnce | GoQueueError]:
        """Store messages whose deduplication ids are free; say of each what its id stands for."""
        topic = self._access.writable_topic(caller, queue)
        self._routing.check_queue_owner(topic)
        return await self._fifo.send(topic, messages)
