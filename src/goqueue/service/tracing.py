"""What happened to messages that are traced, of topics that the caller may read.

Spans know their topics by name, and stay when these go: a tenant sees none from before it was made,
when another of its name may have had the same topics.
"""

from dataclasses import replace

from goqueue.broker.node import Node
from goqueue.broker.tracing.recorder import CALLER
from goqueue.model.caller import Caller, Door
from goqueue.model.records import NewRecord
from goqueue.model.tracing.figures import TracingFigures
from goqueue.model.tracing.query import FoundSpans, FoundTraces, SpanQuery
from goqueue.model.tracing.spans import MessagePlace
from goqueue.service.security.access import Access


class TracingService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access

    # --- what is noted --------------------------------------------------------------------

    @property
    def is_enabled(self) -> bool:
        return self._node.tracing.is_enabled

    @staticmethod
    def asked_by(caller: Caller) -> None:
        """What this task does from here on is done for the caller, and spans say so.

        Kafka's clients have names; for others stands the door.
        """
        CALLER.set(caller.client_id or (None if caller.door is Door.KAFKA else caller.door.value))

    def traceparent(self, caller: Caller, topic: str, partition: int, offset: int) -> str | None:
        """Of a message that the caller just published; None if it is not traced."""
        writable = self._access.writable_topic(caller, topic)
        return self._node.tracing.traceparent(writable, partition, offset)

    def traceparent_of_delayed(
        self, caller: Caller, topic: str, partition: int, delayed_id: str, record: NewRecord
    ) -> str | None:
        """As `traceparent`, of a message that waits."""
        writable = self._access.writable_topic(caller, topic)
        return self._node.tracing.traceparent_of_delayed(writable, partition, delayed_id, record)

    # --- queries --------------------------------------------------------------------------

    async def recent(self, caller: Caller, limit: int) -> FoundTraces:
        return await self.search(caller, SpanQuery(), limit)

    async def search(self, caller: Caller, query: SpanQuery, limit: int) -> FoundTraces:
        """The newest traces with an event that matches."""
        readable = self._access.readable_topics(caller)
        since_us = self._since_us(caller)
        if since_us > (query.from_us or 0):
            query = replace(query, from_us=since_us)
        return await self._node.stories.search(readable, query, limit)

    async def trace(self, caller: Caller, trace_id: str) -> FoundSpans:
        """All that happened in a trace, by time."""
        readable = self._access.readable_topics(caller)
        return self._own(caller, await self._node.stories.trace(readable, trace_id))

    async def of_message(self, caller: Caller, place: MessagePlace) -> FoundSpans:
        """All that happened to one message, wherever it was copied to, by time."""
        self._access.readable_topic(caller, place.topic)
        readable = self._access.readable_topics(caller)
        return self._own(caller, await self._node.stories.of_message(readable, place))

    def _since_us(self, caller: Caller) -> int:
        tenant = self._node.security.image.tenants.get(caller.principal.tenant)
        return 0 if tenant is None else tenant.created_ms * 1_000

    def _own(self, caller: Caller, found: FoundSpans) -> FoundSpans:
        since_us = self._since_us(caller)
        return found._replace(spans=[each for each in found.spans if each.time_us >= since_us])

    async def figures(self, caller: Caller) -> TracingFigures:
        """Of all brokers together."""
        return await self._node.stories.figures(self._access.describable_cluster(caller))
