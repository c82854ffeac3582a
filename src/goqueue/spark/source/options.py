"""What a reader was asked for. Everything that can be wrong without asking a broker is found here.

Names follow Spark's own Kafka source, so that a query moves over by changing its format.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.client.addresses import parse_addresses
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.log_cluster import PATIENCE_SECONDS
from goqueue.client.log_ranges import DEFAULT_FETCH_BYTES, READ_COMMITTED, READ_UNCOMMITTED
from goqueue.model.client_security import ClientSecurity
from goqueue.model.settings import INT32_MAX, INT64_MAX
from goqueue.spark.kafka_options import CONSUMER_REFUSED, CONSUMER_WITHOUT_EFFECT
from goqueue.spark.option_names import GivenOptions, InvalidOption
from goqueue.spark.security_options import (
    PROFILE,
    SECURITY_ALIASES,
    SECURITY_OPTIONS,
    http_of_profile,
    parse_security,
)
from goqueue.spark.source.log_position import (
    FROM_EARLIEST,
    FROM_LATEST,
    LogPosition,
    PositionKind,
    parse_offsets,
    parse_partitions,
    parse_time,
    parse_times,
)
from goqueue.spark.source.nesting import DEPTH_DEFAULT, DEPTH_MAX, DEPTH_OPTION
from goqueue.spark.source.writer_schemas import EVOLUTIONS, FOLLOW

COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "priority",
)
REGISTRY_FORMATS: Final = ("avro", "json", "protobuf")
FORMATS: Final = ("binary", "string", *REGISTRY_FORMATS)

_CHOOSERS: Final = ("topic", "topics", "topicPattern", "assign")
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_KNOWN: Final = (
    "bootstrap.servers",
    *_CHOOSERS,
    *_STARTS,
    *_ENDS,
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "isolation.level",
    "includeHeaders",
    "columns",
    "fetch.max.bytes",
    "group.id",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "key.format",
    "value.format",
    "key.subject",
    "value.subject",
    "key.schema.version",
    "value.schema.version",
    "key.message",
    "value.message",
    "schema.registry.url",
    "schema.evolution",
    DEPTH_OPTION,
    "mode",
    *SECURITY_OPTIONS,
)
# `load("orders")` arrives as the option `path`.
_ALIASES: Final = {
    "subscribe": "topics",
    "subscribePattern": "topicPattern",
    "path": "topic",
    "max.partition.fetch.bytes": "fetch.max.bytes",
    "recursive.fields.max.depth": DEPTH_OPTION,
    **SECURITY_ALIASES,
}

# As Spark's Kafka source has it.
_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
_FETCH_OFFSET_RETRIES: Final = 3
_FETCH_OFFSET_RETRY_MS: Final = 10
_GROUP_PREFIX: Final = "spark"

# A task per range; more of them cost more to start than they read.
_MAX_TASKS: Final = 100_000
_MIN_FETCH_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """One of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    partitions: Mapping[str, list[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFormat:
    """How a key or value is to be read; subject and version matter for the registry's formats."""

    format: str
    subject: str
    version: str
    # Of Protobuf: which message of the schema; the first if empty.
    message: str

    @property
    def needs_registry(self) -> bool:
        return self.format in REGISTRY_FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    bootstrap_servers: str
    security: ClientSecurity
    profile: str
    """Its name, where one is named."""
    choice: TopicChoice
    start: LogPosition
    end: LogPosition
    late_times_fail: bool
    """Whether a starting time after the last record is an error, or means the end."""
    min_partitions: int
    max_records_per_partition: int
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int
    max_trigger_delay_ms: int
    """How long a batch may wait for `min_offsets_per_trigger`."""
    patience_seconds: float
    """How long a broker that went away is waited for."""
    fail_on_data_loss: bool
    isolation: int
    columns: tuple[str, ...]
    fetch_bytes: int
    group_id: str
    group_prefix: str
    """Before the query's name, where no group is named."""
    key: FieldFormat
    value: FieldFormat
    registry_url: str
    skip_undecodable: bool
    """Null instead of an error for a record that its schema does not fit."""
    evolution: str
    """One of EVOLUTIONS: what to do about records of newer schemas than that of the columns."""
    max_depth: int
    """How often a type may contain itself."""


def parse_source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Check and read the options; with None, what only a batch or only a stream has may stand."""
    options = GivenOptions(
        given,
        _KNOWN,
        aliases=_ALIASES,
        without_effect=CONSUMER_WITHOUT_EFFECT,
        refused=CONSUMER_REFUSED,
    )
    if streaming and (ends := options.given(*_ENDS)):
        raise InvalidOption(f"{ends[0]}: a stream has no end; read a batch, or leave it out")
    # In a batch they mean nothing, and stand in options that are shared with streams.
    per_trigger = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
    if len(options.given(*per_trigger)) > 1:
        raise InvalidOption(f"{' and '.join(per_trigger)} exclude each other; give one of them")
    start = _position(options, _STARTS, FROM_LATEST if streaming else FROM_EARLIEST)
    end = _position(options, _ENDS, FROM_LATEST)
    if streaming is False and start.kind is PositionKind.LATEST:
        raise InvalidOption("startingOffsets: latest leaves a batch nothing to read")
    if end.kind is PositionKind.EARLIEST:
        raise InvalidOption("endingOffsets: earliest leaves nothing to read")
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("latest", "error"), "latest")
    level = options.choice(
        "isolation.level", ("read_committed", "read_uncommitted"), "read_committed"
    )
    bootstrap_servers = _bootstrap_servers(options)
    return SourceOptions(
        bootstrap_servers=bootstrap_servers,
        security=parse_security(options, bootstrap_servers),
        profile=options.text(PROFILE),
        choice=_topic_choice(options),
        start=start,
        end=end,
        late_times_fail=strategy == "error",
        min_partitions=options.number("minPartitions", minimum=1, maximum=_MAX_TASKS) or 0,
        max_records_per_partition=options.number(
            "maxRecordsPerPartition", minimum=1, maximum=INT64_MAX
        )
        or 0,
        max_offsets_per_trigger=options.number(
            "maxOffsetsPerTrigger", minimum=1, maximum=INT64_MAX
        ),
        max_bytes_per_trigger=options.size_bytes(
            "maxBytesPerTrigger", minimum=1, maximum=INT64_MAX
        ),
        min_offsets_per_trigger=_min_offsets(options),
        max_trigger_delay_ms=_trigger_delay_ms(options),
        patience_seconds=_patience_seconds(options),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        isolation=READ_COMMITTED if level == "read_committed" else READ_UNCOMMITTED,
        columns=_columns(options),
        fetch_bytes=options.size_bytes(
            "fetch.max.bytes", minimum=_MIN_FETCH_BYTES, maximum=INT32_MAX
        )
        or DEFAULT_FETCH_BYTES,
        group_id=options.text("group.id"),
        group_prefix=options.text("groupIdPrefix", _GROUP_PREFIX),
        key=_field_format(options, "key"),
        value=_field_format(options, "value"),
        registry_url=(
            options.text("schema.registry.url") or http_of_profile(options, bootstrap_servers)
        ).rstrip("/"),
        skip_undecodable=options.choice("mode", ("failfast", "permissive"), "failfast")
        == "permissive",
        evolution=options.choice("schema.evolution", EVOLUTIONS, FOLLOW),
        max_depth=options.number(DEPTH_OPTION, minimum=1, maximum=DEPTH_MAX) or DEPTH_DEFAULT,
    )


def _bootstrap_servers(options: GivenOptions) -> str:
    servers = options.text("bootstrap.servers")
    if not servers:
        raise InvalidOption('bootstrap.servers: name the broker, such as "127.0.0.1:9092"')
    try:
        parse_addresses(servers)
    except BrokerUnreachable as error:
        raise InvalidOption(f"bootstrap.servers: {error}") from None
    return servers


def _min_offsets(options: GivenOptions) -> int:
    least = options.number("minOffsetsPerTrigger", minimum=1, maximum=INT64_MAX) or 0
    most = options.number("maxOffsetsPerTrigger", minimum=1, maximum=INT64_MAX)
    if most is not None and least > most:
        raise InvalidOption(
            f"minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger allows ({most})"
        )
    return least


def _trigger_delay_ms(options: GivenOptions) -> int:
    given = options.duration_ms("maxTriggerDelay", minimum=0, maximum=INT64_MAX)
    return _TRIGGER_DELAY_MS if given is None else given


def _patience_seconds(options: GivenOptions) -> float:
    """As long as the options of Spark's Kafka source ask for, and no less than usual."""
    tries = options.number("fetchOffset.numRetries", minimum=0, maximum=INT32_MAX)
    pause_ms = options.number("fetchOffset.retryIntervalMs", minimum=0, maximum=INT32_MAX)
    poll_ms = options.number("kafkaConsumer.pollTimeoutMs", minimum=0, maximum=INT32_MAX)
    retries_ms = (_FETCH_OFFSET_RETRIES if tries is None else tries) * (
        _FETCH_OFFSET_RETRY_MS if pause_ms is None else pause_ms
    )
    return max(PATIENCE_SECONDS, retries_ms / 1000, (poll_ms or 0) / 1000)


def _topic_choice(options: GivenOptions) -> TopicChoice:
    given = options.given(*_CHOOSERS)
    if len(given) != 1:
        raise InvalidOption(
            "name what to read by exactly one of topic, topics (or subscribe), topicPattern (or "
            f"subscribePattern) and assign; given: {', '.join(given) or 'none'}"
        )
    name = given[0]
    if name == "assign":
        return TopicChoice(partitions=parse_partitions(name, options.text(name)))
    if name == "topicPattern":
        try:
            re.compile(options.text(name))
        except re.error as error:
            raise InvalidOption(f"topicPattern: {error}") from None
        return TopicChoice(pattern=options.text(name))
    names = options.words(name) if name == "topics" else [options.text(name)]
    if not names or not all(names):
        raise InvalidOption(f"{name}: a topic's name is needed")
    return TopicChoice(names=tuple(dict.fromkeys(names)))


def _position(options: GivenOptions, names: tuple[str, ...], default: LogPosition) -> LogPosition:
    given = options.given(*names)
    if len(given) > 1:
        raise InvalidOption(f"{' and '.join(given)} exclude each other; give one of them")
    if not given:
        return default
    name = given[0]
    if name.endswith("ByTimestamp"):
        return parse_times(name, options.text(name))
    if name.endswith("Timestamp"):
        return parse_time(name, options.text(name))
    return parse_offsets(name, options.text(name))


def _columns(options: GivenOptions) -> tuple[str, ...]:
    with_headers = options.flag("includeHeaders", default=False)
    wanted = options.words("columns")
    if not wanted:
        return tuple(name for name in COLUMNS if with_headers or name != "headers")
    proper = {name.lower(): name for name in COLUMNS}
    unknown = [name for name in wanted if name.lower() not in proper]
    if unknown:
        raise InvalidOption(
            f"columns: there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}"
        )
    columns = list(dict.fromkeys(proper[name.lower()] for name in wanted))
    if with_headers and "headers" not in columns:
        columns.append("headers")
    return tuple(columns)


def _field_format(options: GivenOptions, name: str) -> FieldFormat:
    version = options.text(f"{name}.schema.version", "latest").lower()
    if version != "latest" and not (version.isdigit() and int(version) > 0):
        raise InvalidOption(f"{name}.schema.version: {version!r} is neither latest nor a number")
    return FieldFormat(
        format=options.choice(f"{name}.format", FORMATS, "binary"),
        subject=options.text(f"{name}.subject"),
        version=version,
        message=options.text(f"{name}.message"),
    )
