"""What can be set per topic, under Kafka's names where Kafka has one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import INT32_MAX, INT64_MAX, Setting, SettingTable, SettingType, Value
from goqueue.model.tracing.config import TRACING_TOPIC_SETTINGS

_DAY_MS: Final = 24 * 60 * 60 * 1000

_VALIDATION_MODES: Final = ("off", "id", "content")

TOPIC_SETTINGS: Final = SettingTable(
    (
        Setting(
            name="cleanup.policy",
            type=SettingType.LIST,
            default=("delete",),
            choices=("delete", "compact"),
            doc="What happens to old data: delete by age and size, compact by key, or both.",
        ),
        Setting(
            name="compression.type",
            type=SettingType.STRING,
            default="producer",
            choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            doc="Compression of stored batches; 'producer' keeps what the producer chose.",
        ),
        Setting(
            name="delete.retention.ms",
            type=SettingType.LONG,
            default=_DAY_MS,
            minimum=0,
            doc="How long compaction keeps tombstones and transaction markers.",
        ),
        Setting(
            name="file.delete.delay.ms",
            type=SettingType.LONG,
            default=60_000,
            minimum=0,
            doc="How long a removed segment's file stays before it is deleted from disk.",
        ),
        Setting(
            name="flush.ms",
            type=SettingType.LONG,
            default=1_000,
            minimum=1,
            doc="With fsync.policy=interval: how long an append may wait for its fsync.",
        ),
        Setting(
            name="fsync.policy",
            type=SettingType.STRING,
            default="interval",
            choices=("always", "interval", "never"),
            doc="When appends reach the disk: before the answer, every flush.ms, or when the "
            "operating system likes.",
        ),
        Setting(
            name="index.interval.bytes",
            type=SettingType.INT,
            default=4096,
            minimum=0,
            maximum=INT32_MAX,
            doc="Bytes of log between two index entries.",
        ),
        Setting(
            name="max.compaction.lag.ms",
            type=SettingType.LONG,
            default=INT64_MAX,
            minimum=1,
            doc="A record is compacted at the latest this long after it was written.",
        ),
        Setting(
            name="max.message.bytes",
            type=SettingType.INT,
            default=1_048_588,
            minimum=0,
            maximum=INT32_MAX,
            doc="The largest record batch that is taken.",
        ),
        Setting(
            name="message.timestamp.after.max.ms",
            type=SettingType.LONG,
            default=3_600_000,
            minimum=0,
            doc="How far a record's timestamp may lie in the future.",
        ),
        Setting(
            name="message.timestamp.before.max.ms",
            type=SettingType.LONG,
            default=INT64_MAX,
            minimum=0,
            doc="How far a record's timestamp may lie in the past.",
        ),
        Setting(
            name="message.timestamp.type",
            type=SettingType.STRING,
            default="CreateTime",
            choices=("CreateTime", "LogAppendTime"),
            doc="Whether records keep the producer's timestamp or get the broker's.",
        ),
        Setting(
            name="min.cleanable.dirty.ratio",
            type=SettingType.DOUBLE,
            default=0.5,
            minimum=0,
            maximum=1,
            doc="Share of the log that must be uncompacted before compaction runs.",
        ),
        Setting(
            name="min.compaction.lag.ms",
            type=SettingType.LONG,
            default=0,
            minimum=0,
            doc="A record stays uncompacted at least this long.",
        ),
        Setting(
            name="min.insync.replicas",
            type=SettingType.INT,
            default=1,
            minimum=1,
            maximum=INT32_MAX,
            doc="In-sync replicas that an append with acks=all needs.",
        ),
        Setting(
            name="queue.dead.letters",
            type=SettingType.BOOLEAN,
            default=True,
            doc="Whether messages that failed too often go to {topic}.dlq; else they are dropped.",
        ),
        Setting(
            name="queue.expired.to.dead.letters",
            type=SettingType.BOOLEAN,
            default=False,
            doc="Whether messages past their time to live go to {topic}.dlq or are dropped.",
        ),
        Setting(
            name="queue.headers.in.compressed",
            type=SettingType.BOOLEAN,
            default=False,
            doc="Look for goqueue-delay-ms, goqueue-priority … in compressed batches too.",
        ),
        Setting(
            name="queue.max.deliveries",
            type=SettingType.INT,
            default=4,
            minimum=0,
            maximum=INT32_MAX,
            doc="How often a queue reader may get a message before it is a dead letter; 0: always.",
        ),
        Setting(
            name="queue.max.in.flight",
            type=SettingType.INT,
            default=20_000,
            minimum=1,
            maximum=1_000_000,
            doc="Messages of a partition that one group may have unacknowledged.",
        ),
        Setting(
            name="queue.max.in.flight.per.consumer",
            type=SettingType.INT,
            default=1_000,
            minimum=1,
            maximum=1_000_000,
            doc="Messages of a partition that one consumer may have unacknowledged.",
        ),
        Setting(
            name="queue.priority.mode",
            type=SettingType.STRING,
            default="weighted",
            choices=("weighted", "strict", "single"),
            doc="How queue readers are served: by weight, highest priority first, or by offset.",
        ),
        Setting(
            name="queue.retry.backoff.max.ms",
            type=SettingType.LONG,
            default=60_000,
            minimum=0,
            doc="The longest wait before a nacked message is delivered again.",
        ),
        Setting(
            name="queue.retry.backoff.ms",
            type=SettingType.LONG,
            default=1_000,
            minimum=0,
            doc="The wait after the first nack; it doubles with every further one.",
        ),
        Setting(
            name="queue.ttl.ms",
            type=SettingType.LONG,
            default=-1,
            minimum=-1,
            doc="Messages older than this are not delivered to queue readers; -1 is no limit.",
        ),
        Setting(
            name="queue.visibility.timeout.ms",
            type=SettingType.LONG,
            default=30_000,
            minimum=1,
            doc="How long a queue reader has to acknowledge a message before others get it.",
        ),
        Setting(
            name="retention.archive.group",
            type=SettingType.STRING,
            default="",
            doc="Retention waits for this consumer group: only what it has committed may go.",
        ),
        Setting(
            name="retention.archive.max.bytes",
            type=SettingType.LONG,
            default=10 * 1024 * 1024 * 1024,
            minimum=0,
            doc="A partition larger than this no longer waits for retention.archive.group.",
        ),
        Setting(
            name="retention.bytes",
            type=SettingType.LONG,
            default=-1,
            minimum=-1,
            doc="A partition larger than this loses its oldest segments; -1 is no limit.",
        ),
        Setting(
            name="retention.ms",
            type=SettingType.LONG,
            default=7 * _DAY_MS,
            minimum=-1,
            doc="Segments whose newest record is older than this go; -1 is no limit.",
        ),
        Setting(
            name="schema.validation.key",
            type=SettingType.STRING,
            default="off",
            choices=_VALIDATION_MODES,
            doc="As schema.validation.value, for keys.",
        ),
        Setting(
            name="schema.validation.strategy",
            type=SettingType.STRING,
            default="topic",
            choices=("topic", "topic-record", "record"),
            doc="Subjects whose schemas are taken: {topic}-key and -value, {topic}-…, or any.",
        ),
        Setting(
            name="schema.validation.value",
            type=SettingType.STRING,
            default="off",
            choices=_VALIDATION_MODES,
            doc="Refuse messages without a registered schema's id, or also those that do not fit.",
        ),
        Setting(
            name="segment.bytes",
            type=SettingType.INT,
            default=64 * 1024 * 1024,
            minimum=14,
            maximum=INT32_MAX,
            doc="A segment is closed before it grows over this.",
        ),
        Setting(
            name="segment.index.bytes",
            type=SettingType.INT,
            default=10 * 1024 * 1024,
            minimum=4,
            maximum=INT32_MAX,
            doc="A segment is closed when its offset or time index is this large.",
        ),
        Setting(
            name="segment.ms",
            type=SettingType.LONG,
            default=7 * _DAY_MS,
            minimum=1,
            doc="A segment is closed when its first record is this old.",
        ),
        *TRACING_TOPIC_SETTINGS,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic, parsed, with defaults filled in."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_ms: int
    fsync_policy: str
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    queue_dead_letters: bool
    queue_expired_to_dead_letters: bool
    queue_headers_in_compressed: bool
    queue_max_deliveries: int
    queue_max_in_flight: int
    queue_max_in_flight_per_consumer: int
    queue_priority_mode: str
    queue_retry_backoff_max_ms: int
    queue_retry_backoff_ms: int
    queue_ttl_ms: int
    queue_visibility_timeout_ms: int
    retention_archive_group: str
    retention_archive_max_bytes: int
    retention_bytes: int
    retention_ms: int
    schema_validation_key: str
    schema_validation_strategy: str
    schema_validation_value: str
    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int
    tracing_enabled: bool
    tracing_sampling_rate: float

    @property
    def validates_schemas(self) -> bool:
        return self.schema_validation_value != "off" or self.schema_validation_key != "off"

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy


def topic_config(
    texts: Mapping[str, str], defaults: Mapping[str, Value] | None = None
) -> TopicConfig:
    """Parse a topic's own settings; `defaults` are the broker's, over the table's."""
    values: dict[str, Value] = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    values.update(defaults or {})
    values.update(TOPIC_SETTINGS.parse(texts))
    if cast(int, values["min.compaction.lag.ms"]) > cast(int, values["max.compaction.lag.ms"]):
        raise InvalidConfig("min.compaction.lag.ms: must not be above max.compaction.lag.ms")
    return TopicConfig(**{name.replace(".", "_"): value for name, value in values.items()})  # type: ignore[arg-type]
