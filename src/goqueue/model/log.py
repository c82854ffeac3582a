"""What is asked of a log by offset, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId
from goqueue.model.records import Record


class Isolation(Enum):
    """By Kafka's numbers."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


# Special times of which offsets can be asked for, by Kafka's numbers.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int


class Produced(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int


class Published(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FetchPart:
    topic: str
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    # Of a caller that names the topic by its id: another topic of this name is not meant.
    topic_id: UUID | None = None


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FetchedPart:
    topic: str
    index: int
    error: GoQueueError | None = None
    data: bytes = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging: EpochEnd | None = None
    # Where the data ends.
    next_offset: int = -1
    # The broker that the reader should read from, since it is closer to it.
    nearest: NodeId | None = None


class ListedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


class LogEnds(NamedTuple):
    """Where readers begin, and where they end just now."""

    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class StoredPartitionSize:
    topic: str
    index: int
    size_bytes: int
    # Records that are committed, and not here yet.
    lag: int


class DiskSpace(NamedTuple):
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True)
class LogDirView:
    path: str
    space: DiskSpace
    partitions: Sequence[StoredPartitionSize]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Records from `offset` on, or of `since_ms` and later; only those before `until_ms`.

    `since_ms` may also be one of the special times.
    """

    offset: int | None = None
    since_ms: int = EARLIEST_TIMESTAMP
    until_ms: int | None = None
    limit: int
    max_bytes: int
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """Offsets up to, not including, `end_offset`; None is where readers begin or end."""

    first_offset: int | None = None
    end_offset: int | None = None
    isolation: Isolation = Isolation.READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCount:
    """Records from `first_offset` up to `next_offset`: that is `end_offset`, if time was enough."""

    topic_id: UUID
    records: int
    first_offset: int
    end_offset: int
    next_offset: int


class PassedOver(NamedTuple):
    """Offsets of a stored batch that cannot be decoded, and why."""

    first_offset: int
    last_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """`until_offset` is where the time that was asked for as an end begins, once that is known."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int
    until_offset: int | None = None
    passed_over: Sequence[PassedOver] = ()


class ProducerView(NamedTuple):
    """One producer as DescribeProducers shows it (-1 where there is nothing)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int
