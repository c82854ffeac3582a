"""Publishing in tests that are about something else."""

from collections.abc import Sequence

from goqueue.broker.node import Node
from goqueue.model.errors import GoQueueError
from goqueue.model.log import Published
from goqueue.model.records import NewRecord
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE


async def publish(
    node: Node, topic: str, records: Sequence[NewRecord], *, partition: int | None = None
) -> list[Published]:
    """Store records now; the first refusal is raised."""
    partitions = None if partition is None else [partition] * len(records)
    outcomes = await BrokerService(node).publishing.publish(
        ANYONE, topic, records, partitions=partitions
    )
    stored: list[Published] = []
    for outcome in outcomes:
        if isinstance(outcome, GoQueueError):
            raise outcome
        assert isinstance(outcome, Published)
        stored.append(outcome)
    return stored
