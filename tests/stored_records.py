"""What a partition holds, for tests that look at it."""

from goqueue.broker.node import Node
from goqueue.model.log import Isolation, RecordPage
from goqueue.service.security.access import Access
from tests.callers import ANYONE


async def read_records(
    broker: Node,
    topic: str,
    index: int,
    offset: int,
    *,
    limit: int,
    max_bytes: int = 1_048_576,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> RecordPage:
    right = Access().readable_topic(ANYONE, topic)
    return await broker.log.read_records(
        right, index, offset, limit=limit, max_bytes=max_bytes, isolation=isolation
    )
