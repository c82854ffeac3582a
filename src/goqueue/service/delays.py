"""Messages that wait for their time: listed, cancelled, counted."""

from dataclasses import replace

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.delays import LIST_DEFAULT, DelayedId, DelayedPage, DelayStats
from goqueue.service.security.access import Access


class DelayService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access

    async def list_pending(
        self, caller: Caller, topic: str, *, after: str | None = None, limit: int = LIST_DEFAULT
    ) -> DelayedPage:
        """Messages that wait for a topic, by due time."""
        readable = self._access.readable_topic(caller, topic)
        return await self._node.delays.waiting.list_pending(readable, after=after, limit=limit)

    async def cancel(self, caller: Caller, topic: str, message_id: str) -> DelayedId:
        """Take a message back that is not on its way yet."""
        writable = self._access.writable_topic(caller, topic)
        return await self._node.delays.waiting.cancel(writable, message_id)

    async def stats(self, caller: Caller) -> DelayStats:
        """Figures of all brokers since their start, and of the topics that the caller may see."""
        stats = await self._node.delays.stats.of_cluster(self._access.describable_cluster(caller))
        topics = [each for each in stats.topics if self._access.sees_topic(caller, each.topic)]
        return replace(stats, topics=topics)
