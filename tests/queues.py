"""Opening queues in tests that are about something else than their first read."""

from goqueue.broker.node import Node
from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.model.queues.messages import Start
from goqueue.model.queues.settings import QueueSettings


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
