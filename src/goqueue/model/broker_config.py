"""What can be set per broker: the one place where its settings are written.

The command line, the file, the environment, and what Kafka's tools are told all come from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from goqueue.model.client_metrics.config import TelemetrySettings
from goqueue.model.cluster_config import ClusterSettings, check_cordoned
from goqueue.model.groups.config import GroupDefaults
from goqueue.model.replication_config import ReplicationSettings
from goqueue.model.scaling_config import ScalingSettings
from goqueue.model.security.audit_config import AuditSettings
from goqueue.model.security.config import SecuritySettings
from goqueue.model.security.quota_config import QuotaSettings
from goqueue.model.security.super_users import check_super_users
from goqueue.model.settings import INT32_MAX, Value, field_values, setting, settings_of
from goqueue.model.tls_config import TlsSettings
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.model.tracing.config import TracingSettings

# A topic setting is also a broker setting under `topic.` + its name: the default for all topics.
_DATA_FOLDER: Final = Path("data")
TOPIC_DEFAULT_PREFIX: Final = "topic."
# What holds in a cluster where nothing else is set: each message is on two brokers before it is
# acknowledged, and writing goes on while one of the three is down.
CLUSTER_DEFAULTS: Final = {
    "default.replication.factor": "3",
    f"{TOPIC_DEFAULT_PREFIX}min.insync.replicas": "2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(
    GroupDefaults,
    TracingSettings,
    ClusterSettings,
    ReplicationSettings,
    TelemetrySettings,
    ScalingSettings,
    SecuritySettings,
    QuotaSettings,
    TlsSettings,
    AuditSettings,
):
    """The settings of one broker, parsed, with defaults filled in."""

    node_id: int = setting(
        0, minimum=0, maximum=INT32_MAX, doc="This broker's number, unique in its cluster."
    )
    data_dir: Path = setting(_DATA_FOLDER, doc="Folder of everything that is stored.")
    host: str = setting(
        "127.0.0.1", doc="Address to listen on; the default is reachable from this machine only."
    )
    advertised_host: str = setting(
        "", doc="Address told to Kafka clients; empty means the address listened on."
    )
    advertised_kafka_port: int = setting(
        0, minimum=0, maximum=65535, doc="Port told to Kafka clients; 0 means the port listened on."
    )
    kafka_port: int = setting(
        9092, minimum=0, maximum=65535, doc="Port for Kafka clients; 0 picks a free one."
    )
    http_port: int = setting(
        8080, minimum=0, maximum=65535, doc="Port for HTTP; 0 picks a free one."
    )
    auto_create_topics_enable: bool = setting(
        True, doc="Make a topic when a client asks for one that is not there."
    )
    num_partitions: int = setting(
        3, minimum=1, maximum=10_000, doc="Partitions of a topic that is made without a count."
    )
    # In a cluster three: one broker may be lost, and another stopped, at a time.
    max_partitions_per_topic: int = setting(
        10_000, minimum=1, maximum=100_000, doc="The largest partition count a topic may have."
    )
    # Each costs some kilobytes of memory, and up to three times that once it is read as a queue and
    # messages are delayed on their way to it; a start reads all of them.
    max_partitions_per_broker: int = setting(
        20_000,
        minimum=1,
        maximum=1_000_000,
        doc="The partitions that all topics may have together, besides the broker's own; further "
        "ones are refused.",
    )
    # An open file costs the kernel about a kilobyte. Beyond this many, the disk is the bottleneck.
    # With fewer than the minimum, hardly any partition could be written to while others are read.
    max_open_log_files: int = setting(
        10_000,
        minimum=80,
        maximum=1_000_000,
        doc="Files of logs that are kept open; those unused for longest are closed. Never more "
        "than half of the open files that the process may have: the rest is for connections.",
    )
    # More than an application has; a loop over wrong names stops here.
    auto_create_topics_max_per_minute: int = setting(
        100,
        minimum=0,
        maximum=1_000_000,
        doc="Topics made by being asked for within a minute; others are not there until later.",
    )
    retention_check_interval_ms: int = setting(
        30_000, minimum=10, maximum=INT32_MAX, doc="How often old segments are looked for."
    )
    log_cleaner_backoff_ms: int = setting(
        15_000,
        minimum=10,
        maximum=INT32_MAX,
        doc="How often partitions worth compacting are looked for when there was none.",
    )
    max_connections: int = setting(
        10_000,
        minimum=1,
        maximum=1_000_000,
        doc="Kafka connections open at once; a further one is closed at once.",
    )
    # Half of max.connections: one address does not shut out the others.
    max_connections_per_ip: int = setting(
        5_000,
        minimum=1,
        maximum=1_000_000,
        doc="Kafka connections open at once from one address; a further one is closed at once.",
    )
    # As long as clients wait for an answer (request.timeout.ms).
    connections_max_stalled_ms: int = setting(
        30_000,
        minimum=100,
        maximum=INT32_MAX,
        doc="A Kafka connection amid a request or an answer on which no byte moves for this long "
        "is closed.",
    )
    connections_max_idle_ms: int = setting(
        600_000,
        minimum=1_000,
        maximum=INT32_MAX,
        doc="A Kafka connection silent for this long is closed.",
    )
    socket_request_max_bytes: int = setting(
        104_857_600,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The largest Kafka request that is read; a larger one closes the connection.",
    )
    # An assignment of 1 KB to each of 10,000 members takes 10 MB.
    request_max_bytes: int = setting(
        16_777_216,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The largest Kafka request that carries no records; a larger one closes the "
        "connection.",
    )
    # Twice the partitions of the largest topic. An element costs a hundred times its bytes while
    # the request is worked on; this many take 0.1 s to read and to answer.
    request_max_elements: int = setting(
        20_000,
        minimum=1_000,
        maximum=1_000_000,
        doc="Partitions, topics … that one Kafka request may name in all its arrays; more close "
        "the connection.",
    )
    # Hundreds of topics with ten settings each. A producer adds the partitions that it newly writes
    # to, and the offsets of what it has just polled (500 records by default), to its transaction:
    # hundreds. The coordinator takes all of them in one step, of up to 20 ms for this many.
    request_max_resources: int = setting(
        5_000,
        minimum=100,
        maximum=1_000_000,
        doc="As request.max.elements, for requests that create, change, delete or describe "
        "topics, groups, settings and transactions, or add to a transaction.",
    )
    max_requests_in_flight_per_connection: int = setting(
        64,
        minimum=1,
        maximum=10_000,
        doc="Requests of one connection under way at once; then reading from it pauses.",
    )
    queued_max_request_bytes: int = setting(
        134_217_728,
        minimum=1_048_576,
        doc="Bytes of partial and unanswered Kafka requests and of unsent answers held in memory; "
        "then reading pauses, and clients that do not go on are closed.",
    )
    # Consumers wait half a second by default.
    fetch_max_wait_ms: int = setting(
        60_000,
        minimum=0,
        maximum=INT32_MAX,
        doc="The longest that a fetch waits for messages, whatever the client asks for.",
    )
    fetch_max_bytes: int = setting(
        57_671_680,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The most record bytes one fetch answers with, whatever the client asks for.",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000,
        minimum=0,
        maximum=1_000_000,
        doc="Fetch sessions remembered; beyond, the least recently used goes.",
    )
    # As many partitions as a broker has by default, ten times over.
    max_incremental_fetch_session_partitions: int = setting(
        200_000,
        minimum=1_000,
        doc="Partitions remembered in all fetch sessions; beyond, the least recently used goes.",
    )
    # Some kilobytes each.
    max_groups: int = setting(
        20_000,
        minimum=1,
        maximum=10_000_000,
        doc="Consumer and share groups, with those that only have offsets; further ones are "
        "refused.",
    )
    # A kilobyte each, in memory and in every snapshot.
    max_queues: int = setting(
        100_000,
        minimum=1,
        maximum=10_000_000,
        doc="Queues: partitions read as queue by a group, for each of its groups; further ones "
        "are refused.",
    )
    offsets_topic_num_partitions: int = setting(
        8,
        minimum=1,
        maximum=1_000,
        doc="Partitions of the topic that keeps groups and offsets; fixed once it is made.",
    )
    offset_metadata_max_bytes: int = setting(
        4_096,
        minimum=0,
        maximum=1_048_576,
        doc="The longest note that a client may attach to a committed offset.",
    )
    # A week, so that a consumer stopped over holidays finds its place.
    offsets_retention_minutes: int = setting(
        7 * 24 * 60,
        minimum=1,
        maximum=INT32_MAX,
        doc="How long a group without members keeps its offsets.",
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, minimum=1, doc="How often expired offsets are looked for."
    )
    # Both are Kafka's limits, so that clients' settings stay valid here.
    group_min_session_timeout_ms: int = setting(
        6_000,
        minimum=0,
        maximum=INT32_MAX,
        doc="The shortest session time-out a member of the classic protocol may ask for.",
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000,
        minimum=0,
        maximum=INT32_MAX,
        doc="The longest session time-out a member of the classic protocol may ask for.",
    )
    # Long enough for members that start together to land in one rebalance, too short to be felt.
    # (Kafka's 3,000 makes every first poll wait; its sample configuration says 0, which rebalances
    # once per member at start.) Each new member extends it.
    group_initial_rebalance_delay_ms: int = setting(
        100,
        minimum=0,
        maximum=INT32_MAX,
        doc="How long a new classic group waits for more members before its first assignment.",
    )
    # Here and below: an assignment names every member, and a rebalance of more than this would
    # hold the event loop for too long.
    group_max_size: int = setting(
        10_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="Members that a group of the classic protocol may have.",
    )
    # What members say and are assigned is kept in memory, and written to __consumer_offsets with
    # every rebalance; in the classic protocol it is opaque. In Kafka a whole group has to fit into
    # one message of 1 MB; a subscription to 10,000 topics, under three protocols, takes 2 MB.
    group_member_max_bytes: int = setting(
        4 * 1024 * 1024,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The subscription of a member of a group, under all its protocols; and the assignment "
        "that a classic group's leader gives it.",
    )
    # As much as the largest request, which brings the assignments of all members.
    group_max_bytes: int = setting(
        16 * 1024 * 1024,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The subscriptions of all members of a group together, and their assignments.",
    )
    # 600,000 offsets, or a few thousand large groups. It takes up to twice as much memory.
    all_groups_max_bytes: int = setting(
        256 * 1024 * 1024,
        minimum=65_536,
        doc="Subscriptions, assignments and committed offsets of all groups together; beyond, what "
        "makes them larger is refused, and groups go on with what they have.",
    )
    group_consumer_max_size: int = setting(
        10_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="Members that a group of the consumer protocol may have.",
    )
    group_heartbeat_min_interval_ms: int = setting(
        500,
        minimum=100,
        maximum=INT32_MAX,
        doc="How often members of consumer, share and streams groups send heartbeats while there "
        "are few of them, so that rebalances are quick; many send them as seldom as set for them.",
    )
    # Both ways: a group can follow its clients' upgrade and go back when the upgrade goes wrong.
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        doc="Which way a group with members may change its protocol.",
    )
    # Kafka's. A share group's members all talk to the partitions' leaders, and every one of them
    # may hold records: more than this is better as several groups.
    group_share_max_size: int = setting(
        200, minimum=1, maximum=10_000, doc="Members that a share group may have."
    )
    # A thread is a member, and an application of more is better as several.
    group_streams_max_size: int = setting(
        1_000,
        minimum=1,
        maximum=10_000,
        doc="Members that a streams group may have; each thread of an application is one.",
    )
    group_share_max_share_sessions: int = setting(
        2_000,
        minimum=1,
        maximum=1_000_000,
        doc="Share sessions open at once on this broker; a further one is refused.",
    )
    transaction_state_log_num_partitions: int = setting(
        8,
        minimum=1,
        maximum=1_000,
        doc="Partitions of the topic that keeps transactions; fixed once it is made.",
    )
    transaction_max_timeout_ms: int = setting(
        900_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="The longest time-out a transactional producer may ask for.",
    )
    # A week without a transaction.
    transactional_id_expiration_ms: int = setting(
        604_800_000, minimum=1, doc="A transactional id unused for this long is forgotten."
    )
    # A kilobyte each.
    max_transactional_ids: int = setting(
        50_000,
        minimum=1,
        maximum=10_000_000,
        doc="Transactional ids that are remembered; further ones are refused.",
    )
    # They are kept in memory and in every snapshot: 50 MB for as many as there may be.
    transactional_id_max_bytes: int = setting(
        1_024, minimum=64, maximum=32_767, doc="The longest transactional id."
    )
    # Some 200 bytes each. A hundred transactions over 2,000 partitions each.
    max_transaction_partitions: int = setting(
        200_000,
        minimum=100,
        maximum=100_000_000,
        doc="Partitions in all open transactions together; beyond, a transaction of more than ten "
        "is refused.",
    )
    # Half a kilobyte each. A producer that is forgotten may go on; what it sent before is no
    # longer told from what it sends again.
    max_producer_ids_per_partition: int = setting(
        10_000,
        minimum=10,
        maximum=10_000_000,
        doc="Idempotent producers that a partition remembers; beyond, those unused for longest "
        "are forgotten.",
    )
    producer_id_expiration_ms: int = setting(
        86_400_000, minimum=1, doc="A partition forgets a producer that sent nothing for this long."
    )
    # One per environment, team or linked registry. A subject that is not found in the default
    # context is looked for in all others, at some microseconds each.
    max_schema_contexts: int = setting(
        1_000,
        minimum=0,
        maximum=100_000,
        doc="Contexts that the schema registry can have besides the default one.",
    )
    schema_max_bytes: int = setting(
        1_048_576,
        minimum=1_024,
        maximum=8_388_608,
        doc="The largest schema, with its metadata and rules, that is registered.",
    )
    # 20,000 schemas of 3 KB, as many as Confluent Cloud's registry takes. All are kept in memory; a
    # text with characters beyond Latin-1 takes up to four times as much of it.
    all_schemas_max_bytes: int = setting(
        64 * 1024 * 1024,
        minimum=65_536,
        doc="All that is registered together: schemas, versions and settings of subjects; beyond, "
        "further ones are refused. What was deleted for good does not count.",
    )
    schema_validation_cpu_ms: int = setting(
        500,
        minimum=10,
        maximum=60_000,
        doc="Processor time that the check of one message against its schema may take.",
    )
    schema_validation_request_cpu_ms: int = setting(
        5_000,
        minimum=10,
        maximum=600_000,
        doc="Processor time that slow checks of one request's messages may take together.",
    )
    http_request_max_bytes: int = setting(
        104_857_600,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The largest HTTP request body that is read.",
    )
    # Any other name in a request's Host header may be a web page's that lets its name point here
    # (DNS rebinding). Addresses and localhost are taken always.
    http_allowed_hosts: tuple[str, ...] = setting(
        (),
        doc="Names besides host and advertised.host by which HTTP clients call this broker: "
        "broker.example, .example for all below it, * for any.",
    )
    # A tenth of a slow mobile line; who is slower holds a connection, and they are limited.
    http_request_min_bytes_per_second: int = setting(
        500,
        minimum=1,
        maximum=INT32_MAX,
        doc="An HTTP request body that comes more slowly than this over 20 s is cut off.",
    )
    log_level: str = setting(
        "info",
        choices=("debug", "info", "warning", "error"),
        doc="The least severe log lines that are written to standard error.",
    )
    log_format: str = setting(
        "text",
        choices=("text", "json"),
        doc="Log lines for people, or one JSON object per line for log collectors.",
    )
    topic_defaults: Mapping[str, Value] = field(default_factory=dict)


BROKER_SETTINGS: Final = settings_of(BrokerConfig)


def broker_config(texts: Mapping[str, str]) -> BrokerConfig:
    """Parse a broker's settings given as text by dotted name."""
    if texts.get("cluster"):
        texts = {**CLUSTER_DEFAULTS, **texts}
    own = {k: v for k, v in texts.items() if not k.startswith(TOPIC_DEFAULT_PREFIX)}
    for_topics = {
        k.removeprefix(TOPIC_DEFAULT_PREFIX): v
        for k, v in texts.items()
        if k.startswith(TOPIC_DEFAULT_PREFIX)
    }
    given = field_values(BROKER_SETTINGS.parse(own))
    if "data_dir" in given:
        given["data_dir"] = Path(given["data_dir"])
    config = BrokerConfig(**given, topic_defaults=TOPIC_SETTINGS.parse(for_topics))
    check_cordoned(config.cordoned_log_dirs, config.data_dir)
    check_super_users(config.super_users)
    return config
