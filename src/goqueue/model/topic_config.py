"""What can be set per topic, under Kafka's names where Kafka has one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.model.decoding_bounds import (
    BYTES_PER_RECORD,
    UNPACKED_MAX_BYTES,
    DecodingBounds,
)
from goqueue.model.errors import InvalidConfig
from goqueue.model.kafka_topic_settings import KafkaTopicSettings
from goqueue.model.queues.lanes import LaneMode
from goqueue.model.queues.settings import DEFAULT_SETTINGS
from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, parse_context
from goqueue.model.schemas.errors import RegistryRefusal
from goqueue.model.settings import (
    INT32_MAX,
    INT64_MAX,
    Value,
    field_values,
    setting,
    settings_of,
)
from goqueue.model.tracing.config import TopicTracingSettings

_DAY_MS: Final = 24 * 60 * 60 * 1000

_VALIDATION_MODES: Final = ("off", "id", "content")
_DEFAULT_CONTEXT_NAME: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(TopicTracingSettings, KafkaTopicSettings):
    """The settings of one topic, parsed, with defaults filled in."""

    cleanup_policy: tuple[str, ...] = setting(
        ("delete",),
        choices=("delete", "compact"),
        doc="What happens to old data: delete by age and size, compact by key, or both.",
    )
    compression_type: str = setting(
        "producer",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        doc="Compression of stored batches; 'producer' keeps what the producer chose.",
    )
    delete_retention_ms: int = setting(
        _DAY_MS,
        minimum=0,
        doc="How long compaction keeps tombstones and transaction markers.",
    )
    file_delete_delay_ms: int = setting(
        60_000,
        minimum=0,
        doc="How long a removed segment's file stays before it is deleted from disk.",
    )
    flush_ms: int = setting(
        1_000,
        minimum=1,
        doc="With fsync.policy=interval: how long an append may wait for its fsync.",
    )
    fsync_policy: str = setting(
        "interval",
        choices=("always", "interval", "never"),
        doc="When appends reach the disk: before the answer, every flush.ms, or when the "
        "operating system likes.",
    )
    index_interval_bytes: int = setting(
        4096,
        minimum=0,
        maximum=INT32_MAX,
        doc="Bytes of log between two index entries.",
    )
    max_compaction_lag_ms: int = setting(
        INT64_MAX,
        minimum=1,
        doc="A record is compacted at the latest this long after it was written.",
    )
    max_decompressed_message_bytes: int = setting(
        UNPACKED_MAX_BYTES,
        minimum=1024,
        maximum=INT32_MAX,
        doc="The largest batch, unpacked, that the broker looks into; one record for every "
        f"{BYTES_PER_RECORD} bytes of it.",
    )
    max_message_bytes: int = setting(
        1_048_588,
        minimum=0,
        maximum=INT32_MAX,
        doc="The largest record batch that is taken.",
    )
    message_timestamp_after_max_ms: int = setting(
        3_600_000,
        minimum=0,
        doc="How far a record's timestamp may lie in the future.",
    )
    message_timestamp_before_max_ms: int = setting(
        INT64_MAX,
        minimum=0,
        doc="How far a record's timestamp may lie in the past.",
    )
    message_timestamp_type: str = setting(
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whether records keep the producer's timestamp or get the broker's.",
    )
    min_cleanable_dirty_ratio: float = setting(
        0.5,
        minimum=0,
        maximum=1,
        doc="Share of the log that must be uncompacted before compaction runs.",
    )
    min_compaction_lag_ms: int = setting(
        0,
        minimum=0,
        doc="A record stays uncompacted at least this long.",
    )
    min_insync_replicas: int = setting(
        1,
        minimum=1,
        maximum=INT32_MAX,
        doc="In-sync replicas that an append with acks=all needs.",
    )
    partition_growth: str = setting(
        "ordered",
        choices=("ordered", "plain"),
        doc="How more partitions are added: 'ordered' keeps the order of every key and takes only "
        "multiples of the count; 'plain' does as Kafka does.",
    )
    queue_dead_letters: bool = setting(
        DEFAULT_SETTINGS.has_dead_letters,
        doc="Whether messages that failed too often go to {topic}.dlq; else they are dropped.",
    )
    queue_expired_to_dead_letters: bool = setting(
        DEFAULT_SETTINGS.expired_to_dead_letters,
        doc="Whether messages past their time to live go to {topic}.dlq or are dropped.",
    )
    queue_headers_in_compressed: bool = setting(
        False,
        doc="Look for goqueue-delay-ms, goqueue-priority … in compressed batches too.",
    )
    queue_max_deliveries: int = setting(
        DEFAULT_SETTINGS.max_deliveries,
        minimum=0,
        maximum=INT32_MAX,
        doc="How often a queue reader may get a message before it is a dead letter; 0: always.",
    )
    queue_max_in_flight: int = setting(
        DEFAULT_SETTINGS.max_in_flight,
        minimum=1,
        maximum=1_000_000,
        doc="Messages of a partition that one group may have unacknowledged.",
    )
    queue_max_in_flight_per_consumer: int = setting(
        DEFAULT_SETTINGS.max_in_flight_per_member,
        minimum=1,
        maximum=1_000_000,
        doc="Messages of a partition that one consumer may have unacknowledged.",
    )
    queue_priority_mode: str = setting(
        DEFAULT_SETTINGS.lane_mode.value,
        choices=tuple(mode.value for mode in LaneMode),
        doc="How queue readers are served: by weight, highest priority first, or by offset.",
    )
    queue_retry_backoff_max_ms: int = setting(
        DEFAULT_SETTINGS.retry_backoff_max_ms,
        minimum=0,
        doc="The longest wait before a nacked message is delivered again.",
    )
    queue_retry_backoff_ms: int = setting(
        DEFAULT_SETTINGS.retry_backoff_ms,
        minimum=0,
        doc="The wait after the first nack; it doubles with every further one.",
    )
    queue_ttl_ms: int = setting(
        -1,
        minimum=-1,
        doc="Messages older than this are not delivered to queue readers; -1 is no limit.",
    )
    queue_visibility_timeout_ms: int = setting(
        DEFAULT_SETTINGS.lease_ms,
        minimum=1,
        doc="How long a queue reader has to acknowledge a message before others get it.",
    )
    retention_archive_group: str = setting(
        "",
        doc="Retention waits for this consumer group: only what it has committed may go.",
    )
    retention_archive_max_bytes: int = setting(
        10 * 1024 * 1024 * 1024,
        minimum=0,
        doc="A partition larger than this no longer waits for retention.archive.group.",
    )
    retention_bytes: int = setting(
        -1,
        minimum=-1,
        doc="A partition larger than this loses its oldest segments; -1 is no limit.",
    )
    retention_ms: int = setting(
        7 * _DAY_MS,
        minimum=-1,
        doc="Segments whose newest record is older than this go; -1 is no limit.",
    )
    # The name and its default are Confluent's (confluent.schema.validation.context.name).
    schema_validation_context_name: str = setting(
        _DEFAULT_CONTEXT_NAME,
        doc="The registry's context that ids and subjects of this topic's messages are in.",
    )
    schema_validation_key: str = setting(
        "off",
        choices=_VALIDATION_MODES,
        doc="As schema.validation.value, for keys.",
    )
    schema_validation_strategy: str = setting(
        "topic",
        choices=("topic", "topic-record", "record"),
        doc="Subjects whose schemas are taken: {topic}-key and -value, {topic}-…, or any.",
    )
    schema_validation_value: str = setting(
        "off",
        choices=_VALIDATION_MODES,
        doc="Refuse messages without a registered schema's id, or also those that do not fit.",
    )
    segment_bytes: int = setting(
        64 * 1024 * 1024,
        minimum=14,
        maximum=INT32_MAX,
        doc="A segment is closed before it grows over this.",
    )
    segment_index_bytes: int = setting(
        10 * 1024 * 1024,
        minimum=4,
        maximum=INT32_MAX,
        doc="A segment is closed when its offset or time index is this large.",
    )
    segment_ms: int = setting(
        7 * _DAY_MS,
        minimum=1,
        doc="A segment is closed when its first record is this old.",
    )

    @property
    def validates_schemas(self) -> bool:
        return self.schema_validation_value != "off" or self.schema_validation_key != "off"

    @property
    def schema_context(self) -> str:
        name = self.schema_validation_context_name
        return DEFAULT_CONTEXT if name == _DEFAULT_CONTEXT_NAME else parse_context(name)

    @property
    def decoding_bounds(self) -> DecodingBounds:
        """What is taken uncompressed may be looked into as well."""
        return DecodingBounds.of_bytes(
            max(self.max_decompressed_message_bytes, self.max_message_bytes)
        )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy


TOPIC_SETTINGS: Final = settings_of(TopicConfig)
# Settings whose values are held against each other.
CHECKED_TOGETHER: Final = ("max.compaction.lag.ms", "min.compaction.lag.ms")


def topic_config(
    texts: Mapping[str, str], defaults: Mapping[str, Value] | None = None
) -> TopicConfig:
    """Parse a topic's own settings; `defaults` are the broker's, over the table's."""
    values: dict[str, Value] = dict(defaults or {})
    values.update(TOPIC_SETTINGS.parse(texts))
    config = TopicConfig(**field_values(values))
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfig("min.compaction.lag.ms: must not be above max.compaction.lag.ms")
    try:
        _ = config.schema_context
    except RegistryRefusal as refusal:
        raise InvalidConfig(f"schema.validation.context.name: {refusal}") from None
    if config.remote_storage_enable:
        raise InvalidConfig("remote.storage.enable: there is no remote storage")
    return config
