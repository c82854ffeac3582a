"""A message as it is handed to a reader of a queue."""

from dataclasses import dataclass

from goqueue.model.queues.lanes import Lane
from goqueue.model.queues.receipts import Receipt
from goqueue.model.records import Record
from goqueue.model.tracing.spans import TraceContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    topic: str
    partition: int
    record: Record
    delivery_count: int
    lease_id: int
    deadline_ms: int
    # As far as that is remembered; see `Receive.remembers`.
    first_received_ms: int | None = None
    lane: Lane
    # Of a message that is traced.
    story: TraceContext | None = None

    @property
    def receipt(self) -> Receipt:
        return Receipt(
            self.topic, self.partition, self.record.offset, self.delivery_count, self.lease_id
        )
