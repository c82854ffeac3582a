"""Limits and times of the group coordinator; their defaults are those of a broker's settings."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from goqueue.model.broker_config import BrokerConfig

_BROKER: Final = BrokerConfig()
_MINUTE_MS: Final = 60_000


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol (KIP-848, online migration)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class MemberTimes(NamedTuple):
    """How often a member must send a heartbeat, and how long it may be silent."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverrides:
    """What was set for one group alone; None where it was not."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    share_session_timeout_ms: int | None = None
    share_heartbeat_interval_ms: int | None = None
    streams_session_timeout_ms: int | None = None
    streams_heartbeat_interval_ms: int | None = None
    streams_num_standby_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    min_session_timeout_ms: int = _BROKER.group_min_session_timeout_ms
    max_session_timeout_ms: int = _BROKER.group_max_session_timeout_ms
    initial_rebalance_delay_ms: int = _BROKER.group_initial_rebalance_delay_ms
    # A member of the classic protocol that never got its join answered cannot send heartbeats, so
    # its session is this long instead; Kafka's figure.
    new_member_join_timeout_ms: int = 300_000
    classic_max_size: int = _BROKER.group_max_size
    member_max_bytes: int = _BROKER.group_member_max_bytes
    group_max_bytes: int = _BROKER.group_max_bytes
    consumer_max_size: int = _BROKER.group_consumer_max_size
    consumer_session_timeout_ms: int = _BROKER.group_consumer_session_timeout_ms
    consumer_heartbeat_interval_ms: int = _BROKER.group_consumer_heartbeat_interval_ms
    share_max_size: int = _BROKER.group_share_max_size
    share_session_timeout_ms: int = _BROKER.group_share_session_timeout_ms
    share_heartbeat_interval_ms: int = _BROKER.group_share_heartbeat_interval_ms
    streams_max_size: int = _BROKER.group_streams_max_size
    streams_session_timeout_ms: int = _BROKER.group_streams_session_timeout_ms
    streams_heartbeat_interval_ms: int = _BROKER.group_streams_heartbeat_interval_ms
    streams_num_standby_replicas: int = _BROKER.group_streams_num_standby_replicas
    # A rebalance waits for its members' next heartbeats. While a coordinator has few members it
    # can hear from them more often than the intervals above say, down to this; None: never.
    heartbeat_min_interval_ms: int | None = None
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # How long a group that commits nothing in a partition waits for those split off it.
    uncommitted_gate_ms: int = _BROKER.scale_uncommitted_ms
    # Counted in characters, as in Kafka.
    offset_metadata_max_length: int = _BROKER.offset_metadata_max_bytes
    offsets_retention_ms: int = _BROKER.offsets_retention_minutes * _MINUTE_MS
    offsets_retention_check_ms: int = _BROKER.offsets_retention_check_interval_ms
