"""Queues and share groups in tests that are about something else than their first read."""

from goqueue.broker.node import Node
from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.model.queues.messages import Start
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.queues.share import ShareFetch, SharePart


async def open_queues(
    node: Node,
    group: str,
    topic: str,
    *,
    start: Start = "earliest",
    settings: QueueSettings | None = None,
) -> None:
    await node.queues.registry.open(
        own_group(group, OwnWork.SQS_QUEUE),
        own_read(topic, OwnWork.SQS_QUEUE),
        start=start,
        settings=settings,
    )


def share_fetch(*parts: SharePart, max_wait_ms: int) -> ShareFetch:
    """Of a member that takes whatever there is."""
    return ShareFetch(
        wanted=parts,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        max_records=10,
        batch_size=10,
    )
