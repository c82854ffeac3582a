"""What a broker tells about itself when it is asked: figures at one moment.

Counts are since the start of the broker. Ages are in seconds, by what they are of; what is not
there is not known, because the disk did not answer in time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.model.audit import AuditFigures
from goqueue.model.client_metrics.messages import ClientFigures
from goqueue.model.control import MarkerType
from goqueue.model.delays import DelayStats
from goqueue.model.measuring.histograms import HistogramFigures
from goqueue.model.measuring.quotas import QuotaFigures
from goqueue.model.names import NodeId
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.tracing.figures import TracingFigures
from goqueue.model.transactions.states import TransactionState


class ReplicationFigures(NamedTuple):
    """Of the partitions that this broker leads. `lag` is the most messages that one follower lacks
    of one of them."""

    lag: int = 0
    in_sync_shrinks: int = 0
    in_sync_growths: int = 0
    elections: int = 0
    # Of those that it follows: the most records that it has not replayed of one of them.
    standby_lag: int = 0
    # Copies that moves add and that are not in sync yet, and about what they lack.
    added_copies: int = 0
    added_bytes_left: int = 0
    # Copied by this broker for moves.
    moved_in_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """The cluster as this broker sees it, and its disk."""

    node_id: int
    cluster_id: str
    brokers: int
    # Known to the cluster, and not registered.
    nodes_down: int
    # Registered, and found gone by another broker.
    nodes_suspect: int
    is_controller: bool
    topics: int
    partitions_without_leader: int
    # On their way to other brokers.
    moving_partitions: int
    are_moves_paused: bool
    # From here on, of those that this broker leads.
    leaders: int
    under_replicated_partitions: int
    under_min_in_sync_partitions: int
    replication: ReplicationFigures
    # Of this broker, by failures of its disk.
    offline_partitions: int
    is_metadata_available: bool
    metadata_latencies: HistogramFigures
    disk_total_bytes: int
    disk_usable_bytes: int


class PartitionFigures(NamedTuple):
    """Of a copy, whoever leads. The replicas are None while a topic is being made or deleted."""

    topic: str
    partition: int
    is_led: bool
    log_size_bytes: int
    log_segments: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    replicas: int | None
    in_sync_replicas: int | None


class ProducerFigures(NamedTuple):
    """Of all partitions led: `producers` counts a producer once for each that it writes to."""

    producers: int
    open_transactions: int
    aborted_transactions: int
    duplicate_batches: int


class TransactionFigures(NamedTuple):
    """`oldest_open_ms` is how long the oldest open transaction is open; 0 without one."""

    by_state: Mapping[TransactionState, int]
    oldest_open_ms: int
    ended: Mapping[MarkerType, int]


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed_offset: int
    lag: int


class GroupFigures(NamedTuple):
    """`lags` are of the partitions with a committed offset; share groups commit none."""

    group_id: str
    kind: str
    state: str
    members: int
    is_rebalancing: bool
    lags: Sequence[PartitionLag]


class RebalanceFigures(NamedTuple):
    """`by_reason` has every reason; a group in `by_group` those that it had."""

    by_reason: Mapping[str, int]
    by_group: Sequence[tuple[str, Mapping[str, int]]]
    completed: int
    partitions_moved: int
    durations: HistogramFigures


class GroupTopic(NamedTuple):
    group: str
    topic: str


class AllGroupFigures(NamedTuple):
    """Groups by their ids. Ages and rebalances are those of the first ones."""

    groups: Sequence[GroupFigures]
    oldest_uncommitted_seconds: Mapping[GroupTopic, float]
    rebalances: RebalanceFigures


class QueueName(NamedTuple):
    """A topic as one group reads it."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """Of all partitions; lists are by priority."""

    ready: Sequence[int]
    in_flight: Sequence[int]
    waiting: Sequence[int]
    delivered: Sequence[int]
    dying: int
    # What became of deliveries, by its name; every one is there.
    outcomes: Mapping[str, int]
    has_unsettled: bool


class DeadLetterFigures(NamedTuple):
    """`written` by topic, dead-letter topic and reason; the others by dead-letter topic."""

    written: Mapping[tuple[str, str, str], int]
    sent_back: Mapping[str, int]
    pending: Mapping[str, int]


class AllQueueFigures(NamedTuple):
    """Queues by their names. Ages are those of the first ones."""

    queues: Mapping[QueueName, QueueFigures]
    oldest_unsettled_seconds: Mapping[QueueName, float]
    dead_letters: DeadLetterFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFigures:
    flushes: HistogramFigures
    # Of logs, and how many there may be.
    open_files: int
    open_files_max: int
    # Deleted before it had been archived.
    unarchived_bytes: int
    # Stored batches that readers of single messages could not decode.
    passed_over_batches: int
    compactions: int
    failed_compactions: int
    compaction_read_bytes: int
    compaction_written_bytes: int
    compaction_seconds: float


class SubjectCounts(NamedTuple):
    in_use: int
    deleted: int


class SchemaFigures(NamedTuple):
    """The first two are None where another broker leads the registry, or while it is loaded."""

    subjects: SubjectCounts | None
    types: Mapping[SchemaType, int] | None
    worker_starts: int
    refused_messages: int


class CallSide(NamedTuple):
    """Calls between brokers in one direction; latencies by the names of methods."""

    latencies: Mapping[str, HistogramFigures]
    in_flight: int
    request_bytes: int
    answer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """What this broker asked others to do, and what they asked it for."""

    asked: CallSide
    served: CallSide
    # By method and reason.
    failures: Mapping[tuple[str, str], int]
    # By broker: lists of the whole cluster in which it was missing.
    unanswered: Mapping[NodeId, int]
    # Connections to other brokers.
    links: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    now_ms: int
    cluster: ClusterFigures
    calls: CallFigures
    # By topic and number.
    partitions: Sequence[PartitionFigures]
    producers: ProducerFigures
    transactions: TransactionFigures
    groups: AllGroupFigures
    queues: AllQueueFigures
    delays: DelayStats
    storage: StorageFigures
    schemas: SchemaFigures
    tracing: TracingFigures
    clients: ClientFigures
    quotas: QuotaFigures
    audit: AuditFigures
