"""What callers ask of queues, and what they are told."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import Lane
from goqueue.model.queues.settings import DEFAULT_SETTINGS, QueueSettings


class QueueKey(NamedTuple):
    """A partition of a topic, as one group reads it."""

    group: str
    topic_id: UUID
    partition: int


class Leased(NamedTuple):
    """Messages of one lane next to each other that were delivered equally often."""

    offsets: OffsetRange
    delivery_count: int
    lane: Lane


class AckAction(Enum):
    ACCEPT = auto()
    # Back into the queue at once.
    RELEASE = auto()
    # Back into the queue after a time that grows with the deliveries.
    RETRY = auto()
    # To the dead letters.
    REJECT = auto()
    # Keep it for longer (KIP-1222; SQS ChangeMessageVisibility).
    RENEW = auto()
    # There was no message at this offset.
    GAP = auto()
    # Back into the queue at once: it did not reach whoever it was leased for, so that this delivery
    # does not count. Only the first one does, for a message that was leased is no longer fresh.
    UNSEEN = auto()


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """Of all offsets of a range or of none of them.

    Kafka's clients name no lease: the member must hold the offsets. Others name the lease and the
    delivery count of their receipt; who has the receipt may use it.
    """

    offsets: OffsetRange
    action: AckAction
    lease_id: int | None = None
    delivery_count: int | None = None
    # For RETRY the wait, for RENEW the new lease, instead of what the settings say.
    delay_ms: int | None = None


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """One error per item. When an atomic request failed, those of the good items are NONE."""

    error: QueueError
    errors: tuple[QueueError, ...] = ()


class LaneFigures(msgspec.Struct, frozen=True, kw_only=True):
    ready: int
    in_flight: int
    waiting: int
    dequeued: int
    last_served_ms: int | None


class QueueTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Messages since this machine was loaded."""

    delivered: int
    accepted: int
    released: int
    retried: int
    rejected: int
    timed_out: int
    expired: int
    skipped: int
    dead_lettered: int
    dropped: int


class QueueDescription(msgspec.Struct, frozen=True, kw_only=True):
    error: QueueError
    queue: QueueKey
    generation: int = -1
    settings: QueueSettings = DEFAULT_SETTINGS
    # Everything below is settled.
    floor: int = -1
    ready: int = 0
    in_flight: int = 0
    waiting: int = 0
    dying: int = 0
    settled_above_floor: int = 0
    # Of the messages that are neither fresh nor settled: how many were delivered how often.
    delivery_counts: Mapping[int, int]
    lanes: tuple[LaneFigures, ...] = ()
    totals: QueueTotals | None = None


class DescribedQueue(NamedTuple):
    topic: str
    queue: QueueDescription


Start = Literal["earliest", "latest"] | int
