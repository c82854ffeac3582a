"""A topic's delayed messages, for whoever looks after the topic: counted, listed, cancelled."""

from collections.abc import AsyncIterator
from typing import Final

from goqueue.broker.delays.delays import Delays
from goqueue.model.delays import DelayedMessage

PAGE: Final = 1_000


class WaitingMessages:
    def __init__(self, delays: Delays) -> None:
        self._delays = delays

    def count(self, topic: str) -> int:
        stats = self._delays.stats().topics
        return next((each.pending for each in stats if each.topic == topic), 0)

    async def pages(self, topic: str) -> AsyncIterator[list[DelayedMessage]]:
        """All of them, by due time."""
        after: str | None = None
        while True:
            page = await self._delays.list_pending(topic, after=after, limit=PAGE)
            yield page.messages
            after = page.next_after
            if after is None:
                return

    async def cancel(self, topic: str, message_id: str) -> None:
        await self._delays.cancel(topic, message_id)
