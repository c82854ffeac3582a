"""What the actions work with: the broker, the door's own memory, and the request at hand."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.doors.sqs.fifo_sending import FifoSender
from goqueue.model.caller import Caller
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.service.broker_service import BrokerService

# Deliveries whose first receive is remembered for ApproximateFirstReceiveTimestamp; some tens of
# megabytes. Older ones are said to be received for the first time now.
REMEMBERED_DELIVERIES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Call:
    """`host` is what the client called us by, `region` what it signed for.

    `gone` returns when nobody waits for the answer any more: the client hung up, or the door
    closes.
    """

    caller: Caller
    host: str
    region: str
    gone: Callable[[], Awaitable[None]]


class LastDelivery(NamedTuple):
    first_ms: int
    lease_id: int


class DeliveryMemory:
    """When messages were first received, and under which lease last; bounded and volatile."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[UUID, int, int], LastDelivery] = OrderedDict()

    def delivered(
        self, topic_id: UUID, partition: int, offset: int, *, lease_id: int, now_ms: int
    ) -> int:
        """Remember, and return when the message was received for the first time."""
        place = (topic_id, partition, offset)
        known = self._known.get(place)
        first_ms = now_ms if known is None else known.first_ms
        self._known[place] = LastDelivery(first_ms, lease_id)
        if len(self._known) > REMEMBERED_DELIVERIES:
            self._known.popitem(last=False)
        return first_ms

    def last_lease(self, topic_id: UUID, partition: int, offset: int) -> int | None:
        known = self._known.get((topic_id, partition, offset))
        return None if known is None else known.lease_id

    def deleted(self, topic_id: UUID, partition: int, offset: int) -> None:
        self._known.pop((topic_id, partition, offset), None)


class Session:
    """One per door."""

    def __init__(self, service: BrokerService) -> None:
        self.service = service
        self.broker = service.node
        self.deliveries = DeliveryMemory()
        self.closing = asyncio.Event()
        self._fifo_senders: dict[str, FifoSender] = {}

    def fifo_sender(self, queue: SqsQueue) -> FifoSender:
        sender = self._fifo_senders.get(queue.name)
        if sender is None or sender.topic_id != queue.topic.id:
            topics = self.broker.image.topics
            self._fifo_senders = {n: s for n, s in self._fifo_senders.items() if n in topics}
            sender = self._fifo_senders[queue.name] = FifoSender(self.broker, queue.topic.id)
        return sender
