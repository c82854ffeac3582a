"""What callers ask a queue, what it answers, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

from goqueue.state.priority import Lane, LaneIndex, Span
from goqueue.state.queue.errors import QueueError
from goqueue.state.queue.marks import DeadLetterReason
from goqueue.state.queue.records import QueueKey
from goqueue.state.queue.settings import DEFAULT_SETTINGS, QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQueue:
    """Make the queue if there is none. `start` is what earliest, latest or a time stand for."""

    queue: QueueKey
    start: int
    settings: QueueSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureQueue:
    queue: QueueKey
    settings: QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetQueue:
    """Begin anew at `start`: every lease, count and acknowledgement is forgotten."""

    queue: QueueKey
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """Answers the three above."""

    error: QueueError
    is_new: bool = False
    floor: int = -1
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueues:
    """Those of a group, of a topic, or of a group in a topic; one of both must be given."""

    group: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAnswer:
    error: QueueError
    deleted: tuple[QueueKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Take up to `max_messages`.

    `readable` is the log: where it starts, and how far consumers may read (the last stable
    offset). `lanes` are the priorities of its messages, None when they have none. `only` restricts
    the choice to these spans, in this order: for callers that looked at the messages first, as with
    FIFO groups. `skipped` are offsets without a message for consumers (compacted away, control
    batches, aborted transactions): settled silently. `expired` are past their time to live.
    """

    queue: QueueKey
    # None: an SQS client, which has no identity and no limit of its own.
    member: str | None
    max_messages: int
    readable: Span
    lease_ms: int | None = None
    lanes: LaneIndex | None = None
    only: tuple[Span, ...] | None = None
    skipped: tuple[Span, ...] = ()
    expired: tuple[Span, ...] = ()


class Limit(Enum):
    """Which bound held messages back."""

    MEMBER = auto()
    QUEUE = auto()
    UNSETTLED = auto()


@dataclass(frozen=True, slots=True)
class AcquiredSpan:
    start: int
    end: int
    delivery_count: int
    lane: Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The receipt of a message is its offset, its delivery count and the lease id."""

    error: QueueError
    lease_id: int = 0
    deadline_ms: int = 0
    # In order of lanes, then offsets.
    spans: tuple[AcquiredSpan, ...] = ()
    limited_by: Limit | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Of all offsets of a span or of none of them.

    Kafka's clients name no lease: the member must hold the offsets. Others name the lease and the
    delivery count of their receipt; who has the receipt may use it.
    """

    span: Span
    action: AckAction
    lease_id: int | None = None
    delivery_count: int | None = None
    # For RETRY the wait, for RENEW the new lease, instead of what the settings say.
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """`is_atomic`: all items or none, as a ShareAcknowledge request of one partition."""

    queue: QueueKey
    member: str | None
    items: tuple[Acknowledgement, ...]
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """One error per item. When an atomic request failed, those of the good items are NONE."""

    error: QueueError
    errors: tuple[QueueError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Take offsets out of the queue: retention moved the start of the log, or see `Acquire`.

    What is leased goes too: callers that lease before they read find gaps and expired messages
    among what they have just leased.
    """

    queue: QueueKey
    log_start: int = 0
    skipped: tuple[Span, ...] = ()
    expired: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft:
    """The member left or was fenced: its leases end."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Answers `Skip` and `MemberLeft`."""

    error: QueueError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An effect: copy these messages to the dead letters, then report it.

    It comes again after a crash and after a failure, with the same offsets. Whoever writes the
    copies makes them idempotent by (group, topic id, partition, generation, offset).
    """

    queue: QueueKey
    generation: int
    span: Span
    delivery_count: int
    reason: DeadLetterReason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReport:
    """What became of a `DeadLetter` or a part of it; the same report twice does nothing."""

    queue: QueueKey
    generation: int
    span: Span
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class LeasesEnded:
    """An effect: tell those who follow messages that these were not acknowledged in time."""

    queue: QueueKey
    spans: tuple[Span, ...]
    member: str | None


@dataclass(frozen=True, slots=True)
class QueueReady:
    """An effect: wake those who wait for messages of this queue, there may be some now."""

    queue: QueueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    ready: int
    in_flight: int
    waiting: int
    dequeued: int
    last_served_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTotals:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
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
