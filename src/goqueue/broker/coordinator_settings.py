"""The broker's settings as the coordinators know them."""

from goqueue.model.broker_config import BrokerConfig
from goqueue.state.groups.settings import GroupSettings, MigrationPolicy
from goqueue.state.transactions.machine import TransactionSettings

_MINUTE_MS = 60_000


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        classic_max_size=config.group_max_size,
        member_max_bytes=config.group_member_max_bytes,
        group_max_bytes=config.group_max_bytes,
        consumer_max_size=config.group_consumer_max_size,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        heartbeat_min_interval_ms=config.group_heartbeat_min_interval_ms,
        share_max_size=config.group_share_max_size,
        share_session_timeout_ms=config.group_share_session_timeout_ms,
        share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        streams_max_size=config.group_streams_max_size,
        streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        uncommitted_gate_ms=config.scale_uncommitted_ms,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
        offset_metadata_max_length=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_ms=config.offsets_retention_check_interval_ms,
    )


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
    )
