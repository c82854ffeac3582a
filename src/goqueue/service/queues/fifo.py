"""Sending to FIFO queues."""

from collections.abc import Sequence

from goqueue.broker.node import Node
from goqueue.broker.quotas.metering import Metering
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.fifo import FifoMessage, SentOnce
from goqueue.service.security.access import Access


class FifoService:
    def __init__(self, node: Node, access: Access) -> None:
        self._fifo = node.fifo
        self._access = access
        self._metering = Metering(node)

    async def send(
        self, caller: Caller, queue: str, messages: Sequence[FifoMessage]
    ) -> list[SentOnce | GoQueueError]:
        """Store messages whose deduplication ids are free; say of each what its id stands for."""
        writable = self._access.writable_topic(caller, queue)
        self._metering.publishing(caller, messages)
        return await self._fifo.send(writable, messages)
