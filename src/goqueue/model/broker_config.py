"""What can be set per broker. One table serves the command line, the file and the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goqueue.model.groups.config import SHARE_BROKER_SETTINGS
from goqueue.model.settings import INT32_MAX, Setting, SettingTable, SettingType, Value
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.model.tracing.config import TRACING_BROKER_SETTINGS

_INT = SettingType.INT

BROKER_SETTINGS: Final = SettingTable(
    (
        Setting(
            name="node.id",
            type=_INT,
            default=0,
            minimum=0,
            maximum=INT32_MAX,
            doc="This broker's number, unique in its cluster.",
        ),
        Setting(
            name="data.dir",
            type=SettingType.STRING,
            default="data",
            doc="Folder of everything that is stored.",
        ),
        Setting(
            name="host",
            type=SettingType.STRING,
            default="127.0.0.1",
            doc="Address to listen on; the default is reachable from this machine only.",
        ),
        Setting(
            name="advertised.host",
            type=SettingType.STRING,
            default="",
            doc="Address told to Kafka clients; empty means the address listened on.",
        ),
        Setting(
            name="advertised.kafka.port",
            type=_INT,
            default=0,
            minimum=0,
            maximum=65535,
            doc="Port told to Kafka clients; 0 means the port listened on.",
        ),
        Setting(
            name="kafka.port",
            type=_INT,
            default=9092,
            minimum=0,
            maximum=65535,
            doc="Port for Kafka clients; 0 picks a free one.",
        ),
        Setting(
            name="http.port",
            type=_INT,
            default=8080,
            minimum=0,
            maximum=65535,
            doc="Port for HTTP; 0 picks a free one.",
        ),
        Setting(
            name="auto.create.topics.enable",
            type=SettingType.BOOLEAN,
            default=True,
            doc="Make a topic when a client asks for one that is not there.",
        ),
        Setting(
            name="num.partitions",
            type=_INT,
            default=3,
            minimum=1,
            maximum=10_000,
            doc="Partitions of a topic that is made without a count.",
        ),
        Setting(
            name="max.partitions.per.topic",
            type=_INT,
            default=10_000,
            minimum=1,
            maximum=100_000,
            doc="The largest partition count a topic may have.",
        ),
        Setting(
            name="retention.check.interval.ms",
            type=_INT,
            default=30_000,
            minimum=10,
            maximum=INT32_MAX,
            doc="How often old segments are looked for.",
        ),
        Setting(
            name="log.cleaner.backoff.ms",
            type=_INT,
            default=15_000,
            minimum=10,
            maximum=INT32_MAX,
            doc="How often partitions worth compacting are looked for when there was none.",
        ),
        Setting(
            name="max.connections",
            type=_INT,
            default=10_000,
            minimum=1,
            maximum=1_000_000,
            doc="Kafka connections open at once; a further one is closed at once.",
        ),
        Setting(
            name="connections.max.idle.ms",
            type=_INT,
            default=600_000,
            minimum=1_000,
            maximum=INT32_MAX,
            doc="A Kafka connection silent for this long is closed.",
        ),
        Setting(
            name="socket.request.max.bytes",
            type=_INT,
            default=104_857_600,
            minimum=1_024,
            maximum=INT32_MAX,
            doc="The largest Kafka request that is read; a larger one closes the connection.",
        ),
        Setting(
            name="max.requests.in.flight.per.connection",
            type=_INT,
            default=64,
            minimum=1,
            maximum=10_000,
            doc="Requests of one connection under way at once; then reading from it pauses.",
        ),
        Setting(
            name="queued.max.request.bytes",
            type=SettingType.LONG,
            default=536_870_912,
            minimum=1_048_576,
            doc="Bytes of unanswered Kafka requests held in memory; then reading pauses.",
        ),
        Setting(
            name="fetch.max.bytes",
            type=_INT,
            default=57_671_680,
            minimum=1_024,
            maximum=INT32_MAX,
            doc="The most record bytes one fetch answers with, whatever the client asks for.",
        ),
        Setting(
            name="max.incremental.fetch.session.cache.slots",
            type=_INT,
            default=1_000,
            minimum=0,
            maximum=1_000_000,
            doc="Fetch sessions remembered; beyond, the least recently used goes.",
        ),
        Setting(
            name="offsets.topic.num.partitions",
            type=_INT,
            default=8,
            minimum=1,
            maximum=1_000,
            doc="Partitions of the topic that keeps groups and offsets; fixed once it is made.",
        ),
        Setting(
            name="offset.metadata.max.bytes",
            type=_INT,
            default=4_096,
            minimum=0,
            maximum=1_048_576,
            doc="The longest note that a client may attach to a committed offset.",
        ),
        Setting(
            name="offsets.retention.minutes",
            type=_INT,
            default=7 * 24 * 60,
            minimum=1,
            maximum=INT32_MAX,
            doc="How long a group without members keeps its offsets.",
        ),
        Setting(
            name="offsets.retention.check.interval.ms",
            type=SettingType.LONG,
            default=600_000,
            minimum=1,
            doc="How often expired offsets are looked for.",
        ),
        Setting(
            name="group.min.session.timeout.ms",
            type=_INT,
            default=6_000,
            minimum=0,
            maximum=INT32_MAX,
            doc="The shortest session time-out a member of the classic protocol may ask for.",
        ),
        Setting(
            name="group.max.session.timeout.ms",
            type=_INT,
            default=1_800_000,
            minimum=0,
            maximum=INT32_MAX,
            doc="The longest session time-out a member of the classic protocol may ask for.",
        ),
        Setting(
            name="group.initial.rebalance.delay.ms",
            type=_INT,
            default=100,
            minimum=0,
            maximum=INT32_MAX,
            doc="How long a new classic group waits for more members before its first assignment.",
        ),
        Setting(
            name="group.max.size",
            type=_INT,
            default=10_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="Members that a group of the classic protocol may have.",
        ),
        Setting(
            name="group.consumer.max.size",
            type=_INT,
            default=10_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="Members that a group of the consumer protocol may have.",
        ),
        Setting(
            name="group.consumer.session.timeout.ms",
            type=_INT,
            default=45_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="A member of the consumer protocol silent for this long is removed.",
        ),
        Setting(
            name="group.consumer.heartbeat.interval.ms",
            type=_INT,
            default=5_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="How often members of the consumer protocol are told to send a heartbeat.",
        ),
        Setting(
            name="group.heartbeat.min.interval.ms",
            type=_INT,
            default=500,
            minimum=100,
            maximum=INT32_MAX,
            doc="How often members of consumer and share groups send heartbeats while there are "
            "few of them, so that rebalances are quick; many send them as seldom as set for them.",
        ),
        Setting(
            name="group.consumer.migration.policy",
            type=SettingType.STRING,
            default="bidirectional",
            choices=("disabled", "upgrade", "downgrade", "bidirectional"),
            doc="Which way a group with members may change its protocol.",
        ),
        Setting(
            name="delayed.topic.num.partitions",
            type=_INT,
            default=4,
            minimum=1,
            maximum=1_000,
            doc="Partitions of the topic that keeps delayed messages; fixed once it is made.",
        ),
        Setting(
            name="queue.state.num.partitions",
            type=_INT,
            default=8,
            minimum=1,
            maximum=1_000,
            doc="Partitions of the topic that keeps queue state; fixed once it is made.",
        ),
        *SHARE_BROKER_SETTINGS,
        *TRACING_BROKER_SETTINGS,
        Setting(
            name="transaction.state.log.num.partitions",
            type=_INT,
            default=8,
            minimum=1,
            maximum=1_000,
            doc="Partitions of the topic that keeps transactions; fixed once it is made.",
        ),
        Setting(
            name="transaction.max.timeout.ms",
            type=_INT,
            default=900_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="The longest time-out a transactional producer may ask for.",
        ),
        Setting(
            name="transactional.id.expiration.ms",
            type=SettingType.LONG,
            default=604_800_000,
            minimum=1,
            doc="A transactional id unused for this long is forgotten.",
        ),
        Setting(
            name="producer.id.expiration.ms",
            type=SettingType.LONG,
            default=86_400_000,
            minimum=1,
            doc="A partition forgets a producer that sent nothing for this long.",
        ),
        Setting(
            name="schema.max.bytes",
            type=_INT,
            default=1_048_576,
            minimum=1_024,
            maximum=8_388_608,
            doc="The largest schema, with its metadata and rules, that is registered.",
        ),
        Setting(
            name="http.request.max.bytes",
            type=_INT,
            default=104_857_600,
            minimum=1_024,
            maximum=INT32_MAX,
            doc="The largest HTTP request body that is read.",
        ),
        Setting(
            name="log.level",
            type=SettingType.STRING,
            default="info",
            choices=("debug", "info", "warning", "error"),
            doc="The least severe log lines that are written to standard error.",
        ),
        Setting(
            name="log.format",
            type=SettingType.STRING,
            default="text",
            choices=("text", "json"),
            doc="Log lines for people, or one JSON object per line for log collectors.",
        ),
    )
)

# A topic setting is also a broker setting under `topic.` + its name: the default for all topics.
TOPIC_DEFAULT_PREFIX: Final = "topic."


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings of one broker, parsed, with defaults filled in."""

    node_id: int
    data_dir: Path
    host: str
    advertised_host: str
    advertised_kafka_port: int
    kafka_port: int
    http_port: int
    auto_create_topics_enable: bool
    num_partitions: int
    max_partitions_per_topic: int
    retention_check_interval_ms: int
    log_cleaner_backoff_ms: int
    max_connections: int
    connections_max_idle_ms: int
    socket_request_max_bytes: int
    max_requests_in_flight_per_connection: int
    queued_max_request_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    offsets_topic_num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_heartbeat_min_interval_ms: int
    group_consumer_migration_policy: str
    group_share_delivery_count_limit: int
    group_share_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_max_size: int
    group_share_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_max_share_sessions: int
    delayed_topic_num_partitions: int
    queue_state_num_partitions: int
    transaction_state_log_num_partitions: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    producer_id_expiration_ms: int
    schema_max_bytes: int
    http_request_max_bytes: int
    log_level: str
    log_format: str
    tracing_enabled: bool
    tracing_sampling_rate: float
    tracing_max_messages_per_second: int
    tracing_follow_producers: bool
    tracing_follow_max_per_second: int
    tracing_ring_spans: int
    tracing_file_enabled: bool
    tracing_file_max_bytes: int
    tracing_file_max_files: int
    tracing_file_retention_ms: int
    tracing_console_enabled: bool
    tracing_otlp_endpoint: str
    topic_defaults: Mapping[str, Value]


def broker_config(texts: Mapping[str, str]) -> BrokerConfig:
    """Parse a broker's settings given as text by dotted name."""
    own = {k: v for k, v in texts.items() if not k.startswith(TOPIC_DEFAULT_PREFIX)}
    for_topics = {
        k.removeprefix(TOPIC_DEFAULT_PREFIX): v
        for k, v in texts.items()
        if k.startswith(TOPIC_DEFAULT_PREFIX)
    }
    values: dict[str, Value] = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
    values.update(BROKER_SETTINGS.parse(own))
    fields: dict[str, object] = {name.replace(".", "_"): value for name, value in values.items()}
    fields["data_dir"] = Path(str(values["data.dir"]))
    return BrokerConfig(**fields, topic_defaults=TOPIC_SETTINGS.parse(for_topics))  # type: ignore[arg-type]
