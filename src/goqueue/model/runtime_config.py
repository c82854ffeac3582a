"""Settings of a broker that can be changed while it runs, and what must hold between them.

All others hold from a start to the next.
"""

from dataclasses import replace
from typing import Final

from goqueue.model.broker_config import BROKER_SETTINGS, TOPIC_DEFAULT_PREFIX, BrokerConfig
from goqueue.model.cluster_config import CORDONED_LOG_DIRS
from goqueue.model.errors import InvalidConfig
from goqueue.model.replication_config import THROTTLE_SETTINGS
from goqueue.model.settings import SettingTable
from goqueue.model.topic_config import TOPIC_SETTINGS

# What a broker is started with, and takes over anew.
RUNTIME_SETTINGS: Final = SettingTable(
    BROKER_SETTINGS[name]
    for name in (
        "all.groups.max.bytes",
        "auto.create.topics.enable",
        "connections.max.idle.ms",
        "default.replication.factor",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.session.timeout.ms",
        "group.heartbeat.min.interval.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.bytes",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.member.max.bytes",
        "group.min.session.timeout.ms",
        "group.share.delivery.count.limit",
        "group.share.heartbeat.interval.ms",
        "group.share.max.size",
        "group.share.partition.max.record.locks",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.max.size",
        "group.streams.num.standby.replicas",
        "group.streams.session.timeout.ms",
        "log.cleaner.backoff.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.groups",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.retention.minutes",
        "producer.id.expiration.ms",
        "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
    )
)

TOPIC_DEFAULT_SETTINGS: Final = SettingTable(
    replace(setting, name=TOPIC_DEFAULT_PREFIX + name) for name, setting in TOPIC_SETTINGS.items()
)
# All of them: also the defaults of topics, how fast replicas are copied, and whether a broker gets
# new ones.
DYNAMIC_BROKER_SETTINGS: Final = SettingTable(
    (
        *TOPIC_DEFAULT_SETTINGS.values(),
        *THROTTLE_SETTINGS.values(),
        *RUNTIME_SETTINGS.values(),
        BROKER_SETTINGS[CORDONED_LOG_DIRS],
    )
)


def check_running(config: BrokerConfig) -> None:
    """Refuse what would leave no member a time-out that it may have, or every one silent for too
    long between two heartbeats."""
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise InvalidConfig(
            "group.min.session.timeout.ms: must not be above group.max.session.timeout.ms"
        )
    for kind, interval_ms, session_ms in (
        (
            "consumer",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_session_timeout_ms,
        ),
        ("share", config.group_share_heartbeat_interval_ms, config.group_share_session_timeout_ms),
        (
            "streams",
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_session_timeout_ms,
        ),
    ):
        if interval_ms >= session_ms:
            raise InvalidConfig(
                f"group.{kind}.heartbeat.interval.ms: must be below group.{kind}.session.timeout.ms"
            )
