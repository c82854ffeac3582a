"""What a queue has waiting because of DelaySeconds: scheduled, counted, listed, thrown away."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final

from goqueue.broker.node import Node
from goqueue.model.delays import DelayedMessage
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord

PAGE: Final = 1_000


async def schedule(broker: Node, queue: SqsQueue, records: Sequence[tuple[NewRecord, int]]) -> None:
    """Each with its due time. To the partitions that publishing would choose."""
    partitions = len(queue.topic.partitions)
    sticky = random.randrange(partitions)
    chosen: dict[int, list[tuple[NewRecord, int]]] = {}
    for record, due_ms in records:
        key = record.key
        index = sticky if key is None else partition_for_key(key, partitions)
        chosen.setdefault(index, []).append((record, due_ms))
    await asyncio.gather(
        *(broker.delays.schedule(queue.name, index, each) for index, each in chosen.items())
    )


async def delayed_messages(broker: Node, queue: SqsQueue) -> AsyncIterator[list[DelayedMessage]]:
    """All of them in pages, by due time."""
    after: str | None = None
    while True:
        page = await broker.delays.list_pending(queue.name, after=after, limit=PAGE)
        yield page.messages
        after = page.next_after
        if after is None:
            return
