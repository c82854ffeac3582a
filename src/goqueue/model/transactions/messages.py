"""What callers ask the transaction coordinator, what it answers, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from goqueue.model.calls import Unanswered
from goqueue.model.control import Marker
from goqueue.model.names import TopicPartition
from goqueue.model.transactions.errors import TransactionError

NO_PRODUCER_ID = -1
NO_EPOCH = -1


class InitProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """Without a transactional id: only a fresh producer id for an idempotent producer.

    A producer that continues after an error names the id and epoch it had (KIP-360).
    """

    transactional_id: str | None
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class ProducerIdAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answers `InitProducerId`, and `EndTransaction` of version 2 with what to use next."""

    error: TransactionError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


# A dataclass: a right is a NewType of it, which mypy cannot make of a struct.
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
    # Sent by another broker, not by the producer: it may add where a group's offsets are kept.
    is_of_broker: bool = False


class AddPartitionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    errors: Mapping[TopicPartition, TransactionError]


class AddOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Put the partition that keeps a group's offsets into the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: TransactionError


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """`bumps_epoch`: the client speaks transaction version 2 (EndTxn v5 and later)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    bumps_epoch: bool


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """Filters: empty, negative or None lets everything pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    running_longer_than_ms: int = -1
    id_pattern: str | None = None


class ListedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: TransactionError = TransactionError.NONE
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()


class DescribeTransaction(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
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
    unanswered: list[Unanswered]


class TransactionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    # By the labels of states.
    by_state: Mapping[str, int]
    open: int
    oldest_open_ms: int | None
    unanswered: list[Unanswered]


class WriteMarkers(msgspec.Struct, frozen=True, kw_only=True):
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


class MarkersWritten(msgspec.Struct, frozen=True, kw_only=True):
    """The report on a `WriteMarkers`; stale reports do nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    results: Mapping[TopicPartition, MarkerResult]


class ProducerIdentity(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
