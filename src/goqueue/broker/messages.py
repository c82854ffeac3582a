"""What doors hand to the broker and get back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from goqueue.model.errors import GoQueueError
from goqueue.model.records import Record
from goqueue.model.settings import SettingType


class Isolation(Enum):
    """By Kafka's numbers."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Mapping[int, Sequence[int]] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    # Internal topics are made by the broker alone: with other settings they would lose state.
    by_broker: bool = False


class ConfigOp(Enum):
    """By Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    name: str
    op: ConfigOp = ConfigOp.SET
    value: str | None = None


class ConfigSource(Enum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str
    source: ConfigSource
    read_only: bool
    type: SettingType
    doc: str
    synonyms: tuple[ConfigSynonym, ...]


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


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


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


class ListedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StoredPartitionSize:
    topic: str
    index: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirView:
    path: str
    total_bytes: int
    usable_bytes: int
    partitions: tuple[StoredPartitionSize, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    records: list[Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int
