"""What is noted of a message: one span for each thing that happens to it."""

from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec


class Event(StrEnum):
    """Everything that can happen to a message on its way."""

    PUBLISH_RECEIVED = "publish.received"
    PUBLISH_PARTITIONED = "publish.partitioned"
    PUBLISH_PERSISTED = "publish.persisted"
    PUBLISH_REPLICATED = "publish.replicated"
    CONSUME_FETCHED = "consume.fetched"
    CONSUME_ACKED = "consume.acked"
    CONSUME_NACKED = "consume.nacked"
    CONSUME_REJECTED = "consume.rejected"
    DELAY_SCHEDULED = "delay.scheduled"
    DELAY_READY = "delay.ready"
    DELAY_CANCELLED = "delay.cancelled"
    DELAY_EXPIRED = "delay.expired"
    VISIBILITY_TIMEOUT = "visibility.timeout"
    VISIBILITY_EXTENDED = "visibility.extended"
    DLQ_ROUTED = "dlq.routed"
    DLQ_REDRIVEN = "dlq.redriven"


EventName = Literal[
    "publish.received",
    "publish.partitioned",
    "publish.persisted",
    "publish.replicated",
    "consume.fetched",
    "consume.acked",
    "consume.nacked",
    "consume.rejected",
    "delay.scheduled",
    "delay.ready",
    "delay.cancelled",
    "delay.expired",
    "visibility.timeout",
    "visibility.extended",
    "dlq.routed",
    "dlq.redriven",
]
Status = Literal["ok", "failed"]

# Somebody wanted the message to go on, and it did not.
FAILURES: Final = frozenset(
    {
        Event.CONSUME_NACKED,
        Event.CONSUME_REJECTED,
        Event.DELAY_EXPIRED,
        Event.VISIBILITY_TIMEOUT,
        Event.DLQ_ROUTED,
    }
)


class MessagePlace(msgspec.Struct, frozen=True, order=True):
    """Where a message is. Dead letters and what is sent back from them are at several."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class TraceContext(NamedTuple):
    """Which trace a message belongs to.

    `span_id` is the message's first span, under which all others are; `parent_id` the span of the
    producer that sent it, if that told us.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None


class TracedMessage(NamedTuple):
    """A message whose trace its offset alone does not tell."""

    topic: str
    partition: int
    offset: int
    context: TraceContext


class GroupCommit(NamedTuple):
    """A group is done with everything below the offset."""

    topic: str
    partition: int
    group: str
    member: str
    offset: int
    time_us: int


class Span(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One event of one message. Times are microseconds, since 1970 where they are moments."""

    trace_id: str
    span_id: str
    parent_id: str | None
    event: EventName
    topic: str
    partition: int
    # None: the message is delayed and has no offset yet.
    offset: int | None
    time_us: int
    duration_us: int = 0
    status: Status = "ok"
    group: str | None = None
    # A member of the group, or the id that the client gave itself.
    consumer: str | None = None
    delivery_count: int | None = None
    reason: str | None = None
    delayed_id: str | None = None
    # The other place of a message that was copied: its dead letter, or what was sent back.
    linked: MessagePlace | None = None

    @property
    def place(self) -> MessagePlace | None:
        return (
            None if self.offset is None else MessagePlace(self.topic, self.partition, self.offset)
        )

    @property
    def end_us(self) -> int:
        return self.time_us + self.duration_us

    @property
    def moment_us(self) -> int:
        """When the message was as the event says."""
        return self.time_us if self.event == Event.PUBLISH_RECEIVED.value else self.end_us
