"""What waits in a FIFO queue with DelaySeconds, for its window of deduplication ids."""

from collections.abc import AsyncIterator
from typing import Final

from goqueue.broker.node import Node
from goqueue.broker.own_grants import OwnWork, own_read
from goqueue.model.delays import DelayedMessage
from goqueue.model.queues.sqs_queue import SqsQueue

PAGE: Final = 1_000


async def delayed_messages(broker: Node, queue: SqsQueue) -> AsyncIterator[list[DelayedMessage]]:
    """All of them in pages, by due time."""
    after: str | None = None
    while True:
        readable = own_read(queue.name, OwnWork.FIFO_WINDOW)
        page = await broker.delays.list_pending(readable, after=after, limit=PAGE)
        yield page.messages
        after = page.next_after
        if after is None:
            return
