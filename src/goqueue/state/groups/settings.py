"""Limits and times of the group coordinator, with the reason for each default."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    # group.min/max.session.timeout.ms: Kafka's limits, so that clients' settings stay valid here.
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    # group.initial.rebalance.delay.ms: long enough for members that start together to land in one
    # rebalance, too short to be felt. (Kafka's 3,000 makes every first poll wait; its sample
    # configuration says 0, which rebalances once per member at start.) Each new member extends it.
    initial_rebalance_delay_ms: int = 100
    # A member of the classic protocol that never got its join answered cannot send heartbeats, so
    # its session is this long instead; Kafka's figure.
    new_member_join_timeout_ms: int = 300_000
    # group.max.size and group.consumer.max.size: an assignment names every member, and a rebalance
    # of more than this would hold the event loop for too long.
    classic_max_size: int = 10_000
    consumer_max_size: int = 10_000
    # group.consumer.*: Kafka's defaults; three to nine missed heartbeats end a session.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    # group.share.*: Kafka's defaults. A share group's members all talk to the partitions' leaders,
    # and every one of them may hold records: more than this is better as several groups.
    share_max_size: int = 200
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    # A rebalance waits for its members' next heartbeats. While a coordinator has few members it
    # can hear from them more often than the intervals above say, down to this; None: never.
    heartbeat_min_interval_ms: int | None = None
    # Both ways: a group can follow its clients' upgrade and go back when the upgrade goes wrong.
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # offset.metadata.max.bytes: the note a client attaches to an offset; counted in characters,
    # as in Kafka.
    offset_metadata_max_length: int = 4_096
    # offsets.retention.minutes: a week, so that a consumer stopped over holidays finds its place.
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    # offsets.retention.check.interval.ms
    offsets_retention_check_ms: int = 600_000
