"""What callers ask the transaction coordinator, what it answers, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from goqueue.model.control import Marker
from goqueue.model.names import TopicPartition
from goqueue.model.transactions.errors import TransactionError

NO_PRODUCER_ID = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """Without a transactional id: only a fresh producer id for an idempotent producer.

    A producer that continues after an error names the id and epoch it had (KIP-360).
    """

    transactional_id: str | None
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdAnswer:
    """Answers `InitProducerId`, and `EndTransaction` of version 2 with what to use next."""

    error: TransactionError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Put partitions into the transaction, or only ask whether they are in it (`verify_only`).

    Partition leaders send it too: for clients of transaction version 2, which do not (KIP-890).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    verify_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsAnswer:
    transactional_id: str
    errors: Mapping[TopicPartition, TransactionError]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsets:
    """Put the partition that keeps a group's offsets into the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsAnswer:
    error: TransactionError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """`bumps_epoch`: the client speaks transaction version 2 (EndTxn v5 and later)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    bumps_epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """Filters: empty, negative or None lets everything pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    running_longer_than_ms: int = -1
    id_pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsAnswer:
    error: TransactionError = TransactionError.NONE
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransaction:
    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    error: TransactionError
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()


class DescribedTransactions(NamedTuple):
    """`total` counts those that a limit left out, too."""

    transactions: list[TransactionDescription]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatistics:
    total: int
    # By the labels of states.
    by_state: Mapping[str, int]
    open: int
    oldest_open_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """An effect: append `marker` to each partition, then call `markers_written`.

    Only after the records of the same outcome are committed: a marker is final. Each partition
    decides with `PartitionProducers.check_marker` whether it has the marker already. Every
    partition must be reported, one by one or together, in any order.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    marker: Marker
    bumps_epoch: bool
    partitions: frozenset[TopicPartition]


class MarkerResult(Enum):
    WRITTEN = auto()
    # The partition is deleted: nobody can read the outcome there.
    GONE = auto()
    # The partition cannot take it now (offline, moving, time-out): try again later.
    RETRY = auto()
    # A newer coordinator or producer epoch has been there: this coordinator must stop.
    FENCED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten:
    """The report on a `WriteMarkers`; stale reports do nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    results: Mapping[TopicPartition, MarkerResult]


class ProducerIdentity(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
