"""Broker settings under Kafka's names, for tools that ask for those, or set them.

What is set under Kafka's name is kept under our own, so that there is one value, whichever name
was used; it is described under both. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from goqueue.model.broker_config import TOPIC_DEFAULT_PREFIX, BrokerConfig
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigOp, ConfigSource, ConfigSynonym
from goqueue.model.errors import InvalidRequest
from goqueue.model.settings import SettingTable, SettingType
from goqueue.model.topic_config import TOPIC_SETTINGS

# Kafka's name of the default -> the topic setting (Kafka: ServerTopicConfigSynonyms).
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.local.retention.bytes": "local.retention.bytes",
    "log.local.retention.ms": "local.retention.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.preallocate": "preallocate",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


# The other way round.
KAFKA_NAMES: Final = {topic_name: name for name, topic_name in TOPIC_DEFAULTS.items()}
_SETTINGS: Final = SettingTable(
    replace(TOPIC_SETTINGS[topic_name], name=name) for name, topic_name in TOPIC_DEFAULTS.items()
)
# Described, and never set: they follow from other settings of a broker.
FOLLOWING_NAMES: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "listeners",
        "log.cleaner.enable",
        "log.dir",
        "log.dirs",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    }
)

# With one data directory there is nothing that it could hold back, and nobody can have set it. But
# kafka-reassign-partitions.sh deletes it with the other rates when a move is over.
_NEVER_SET: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def own_name(name: str) -> str:
    topic_name = TOPIC_DEFAULTS.get(name)
    return name if topic_name is None else TOPIC_DEFAULT_PREFIX + topic_name


def own_texts(texts: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Settings by our names. A bad value is refused under the name that it was given.

    Tools that replace all settings send back what they were told, under both names: then the one
    that is no longer as in `current` counts.
    """
    found: dict[str, str] = {}
    for name, text in texts.items():
        if name in _SETTINGS:
            _SETTINGS[name].parse(text)
        own = own_name(name)
        other, held = found.get(own, text), current.get(own)
        if other != text and held not in (other, text):
            raise InvalidRequest(f"{name}: has another value than {own}, which is the same setting")
        found[own] = other if text == held else text
    return found


def own_changes(changes: Sequence[ConfigChange]) -> list[ConfigChange]:
    """The same for changes; that a name comes twice is found by whoever applies them. To delete
    what cannot be set changes nothing."""
    for change in changes:
        if change.op is ConfigOp.SET and change.value is not None and change.name in _SETTINGS:
            _SETTINGS[change.name].parse(change.value)
    return [
        replace(change, name=own_name(change.name))
        for change in changes
        if change.name != _NEVER_SET or change.op is not ConfigOp.DELETE
    ]


def topic_default_entries(entries: Mapping[str, ConfigEntry]) -> Iterator[ConfigEntry]:
    """`entries` are a broker's own, by name."""
    for name, topic_name in TOPIC_DEFAULTS.items():
        own = entries.get(TOPIC_DEFAULT_PREFIX + topic_name)
        if own is not None:
            synonyms = tuple(synonym._replace(name=name) for synonym in own.synonyms)
            yield replace(own, name=name, doc=f"As {own.name}.", synonyms=synonyms)


def following_entries(
    entries: Mapping[str, ConfigEntry], config: BrokerConfig, advertised: tuple[str, int] | None
) -> Iterator[ConfigEntry]:
    """`advertised` is where Kafka clients reach the broker."""
    replicas = entries["default.replication.factor"].value
    min_in_sync = entries["topic.min.insync.replicas"].value
    host, port = (config.host, config.kafka_port) if advertised is None else advertised
    texts = (
        ("advertised.listeners", SettingType.STRING, f"PLAINTEXT://{host}:{port}"),
        ("broker.id", SettingType.INT, str(config.node_id)),
        ("listeners", SettingType.STRING, f"PLAINTEXT://{config.host}:{port}"),
        ("log.cleaner.enable", SettingType.BOOLEAN, "true"),
        ("log.dir", SettingType.STRING, str(config.data_dir)),
        ("log.dirs", SettingType.STRING, str(config.data_dir)),
        ("offsets.topic.replication.factor", SettingType.INT, replicas),
        ("transaction.state.log.min.isr", SettingType.INT, min_in_sync),
        ("transaction.state.log.replication.factor", SettingType.INT, replicas),
    )
    for name, kind, value in texts:
        source = ConfigSource.STATIC_BROKER
        yield ConfigEntry(
            name=name,
            value=value,
            source=source,
            read_only=True,
            type=kind,
            doc="Follows from other settings of this broker.",
            synonyms=(ConfigSynonym(name, value, source),),
        )
