"""What callers ask a queue, what it answers, and what it wants done."""

from enum import Enum, auto
from uuid import UUID

import msgspec

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Acknowledgement, Leased, QueueKey
from goqueue.model.queues.settings import DEFAULT_SETTINGS, QueueSettings
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.marks import DeadLetterReason


class OpenQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Make the queue if there is none. `start` is what earliest, latest or a time stand for."""

    queue: QueueKey
    start: int
    settings: QueueSettings = DEFAULT_SETTINGS


class ConfigureQueue(msgspec.Struct, frozen=True, kw_only=True):
    queue: QueueKey
    settings: QueueSettings


class ResetQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Begin anew at `start`: every lease, count and acknowledgement is forgotten."""

    queue: QueueKey
    start: int


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answers the three above."""

    error: QueueError
    is_new: bool = False
    floor: int = -1
    problem: str = ""


class DeleteQueues(msgspec.Struct, frozen=True, kw_only=True):
    """Those of a group, of a topic, or of a group in a topic; one of both must be given."""

    group: str | None = None
    topic_id: UUID | None = None

    def concerns(self, key: QueueKey) -> bool:
        return self.group in (None, key.group) and self.topic_id in (None, key.topic_id)


class DeleteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: QueueError
    deleted: tuple[QueueKey, ...] = ()


class Acquire(msgspec.Struct, frozen=True, kw_only=True):
    """Take up to `max_messages`.

    `readable` is the log: where it starts, and how far consumers may read (the last stable
    offset). `lanes` are the priorities of its messages, None when they have none. `only` restricts
    the choice to these ranges, in this order: for callers that looked at the messages first, as
    with FIFO groups. `skipped` are offsets without a message for consumers (compacted away, control
    batches, aborted transactions): settled silently. `expired` are past their time to live.
    """

    queue: QueueKey
    # None: an SQS client, which has no identity and no limit of its own.
    member: str | None
    max_messages: int
    readable: OffsetRange
    lease_ms: int | None = None
    lanes: LaneIndex | None = None
    only: tuple[OffsetRange, ...] | None = None
    skipped: tuple[OffsetRange, ...] = ()
    expired: tuple[OffsetRange, ...] = ()


class Limit(Enum):
    """Which bound held messages back."""

    MEMBER = auto()
    QUEUE = auto()
    UNSETTLED = auto()


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a message is its offset, its delivery count and the lease id."""

    error: QueueError
    lease_id: int = 0
    deadline_ms: int = 0
    # In order of lanes, then offsets.
    leased: tuple[Leased, ...] = ()
    limited_by: Limit | None = None


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True):
    """`is_atomic`: all items or none, as a ShareAcknowledge request of one partition."""

    queue: QueueKey
    member: str | None
    items: tuple[Acknowledgement, ...]
    is_atomic: bool = False


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Take offsets out of the queue: retention moved the start of the log, or see `Acquire`.

    What is leased goes too: callers that lease before they read find gaps and expired messages
    among what they have just leased. `unreadable` cannot be decoded, and go to the dead letters.
    """

    queue: QueueKey
    log_start: int = 0
    skipped: tuple[OffsetRange, ...] = ()
    expired: tuple[OffsetRange, ...] = ()
    unreadable: tuple[OffsetRange, ...] = ()


class MemberLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The member left or was fenced: its leases end."""

    group: str
    member: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Answers `Skip` and `MemberLeft`."""

    error: QueueError


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An effect: copy these messages to the dead letters, then report it.

    It comes again after a crash and after a failure, with the same offsets. Whoever writes the
    copies makes them idempotent by (group, topic id, partition, generation, offset).
    """

    queue: QueueKey
    generation: int
    offsets: OffsetRange
    delivery_count: int
    reason: DeadLetterReason


class DeadLetterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a `DeadLetter` or a part of it; the same report twice does nothing."""

    queue: QueueKey
    generation: int
    offsets: OffsetRange
    is_written: bool = True


class LeasesEnded(msgspec.Struct, frozen=True):
    """An effect: tell those who follow messages that these were not acknowledged in time."""

    queue: QueueKey
    ranges: tuple[OffsetRange, ...]
    member: str | None


class QueueReady(msgspec.Struct, frozen=True):
    """An effect: wake those who wait for messages of this queue, there may be some now."""

    queue: QueueKey
