"""What the actions work with: the broker, the door's own memory, and the request at hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from goqueue.doors.sqs.fifo_sending import FifoSender
from goqueue.model.caller import Caller
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.service.broker_service import BrokerService


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


class Session:
    """One per door."""

    def __init__(self, service: BrokerService) -> None:
        self.service = service
        self.broker = service.node
        self.closing = asyncio.Event()
        self._fifo_senders: dict[str, FifoSender] = {}

    def fifo_sender(self, queue: SqsQueue) -> FifoSender:
        sender = self._fifo_senders.get(queue.name)
        if sender is None or sender.topic_id != queue.topic.id:
            topics = self.broker.image.topics
            self._fifo_senders = {n: s for n, s in self._fifo_senders.items() if n in topics}
            sender = self._fifo_senders[queue.name] = FifoSender(self.broker, queue.topic.id)
        return sender
