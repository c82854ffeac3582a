"""Broker settings under Kafka's names, for tools that ask for those.

They are described, not set: the names under which they can be set stand beside them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.configs import ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.model.settings import SettingType

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


def kafka_entries(
    entries: Mapping[str, ConfigEntry], config: BrokerConfig, advertised: tuple[str, int] | None
) -> Iterator[ConfigEntry]:
    """`entries` are the broker's own, by name; `advertised` is where Kafka clients reach it."""
    for name, topic_name in TOPIC_DEFAULTS.items():
        own = entries["topic." + topic_name]
        yield replace(own, name=name, read_only=True, doc=f"As {own.name}.")
    replicas = str(config.default_replication_factor)
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
