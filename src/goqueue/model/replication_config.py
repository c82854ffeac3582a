"""Settings of replication: how followers copy, and when one is too far behind."""

from dataclasses import dataclass
from typing import Final

from goqueue.model.settings import (
    INT32_MAX,
    INT64_MAX,
    Setting,
    SettingTable,
    SettingType,
    setting,
)

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

# Changed at run time only, while replicas catch up or move.
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
# Of replicas that join by a move, where their topics do not say that Kafka's rates hold for them.
MOVE_RATE: Final = "replica.move.rate"
MOVES_PAUSED: Final = "replica.moves.paused"
UNLIMITED: Final = INT64_MAX
# With it publishing takes as long as without a move on two shared cores (docs/benchmarks.md), and
# a terabyte is moved in 14 hours. As fast as it goes, it takes five times as long.
DEFAULT_MOVE_RATE: Final = 20_000_000
NO_MOVE_LIMIT: Final = 0
_RATES: Final = tuple(
    Setting(name=name, type=SettingType.LONG, default=UNLIMITED, minimum=1, doc=doc)
    for name, doc in (
        (
            LEADER_RATE,
            "Bytes per second that followers out of sync get from this broker, of partitions in "
            "leader.replication.throttled.replicas.",
        ),
        (
            FOLLOWER_RATE,
            "Bytes per second that this broker copies while out of sync, of partitions in "
            "follower.replication.throttled.replicas.",
        ),
    )
)
THROTTLE_SETTINGS: Final = SettingTable(
    (
        Setting(
            name=MOVE_RATE,
            type=SettingType.LONG,
            default=DEFAULT_MOVE_RATE,
            minimum=NO_MOVE_LIMIT,
            doc="Bytes per second that this broker sends to, and as many that it copies for, "
            "replicas that are moved from broker to broker, on top of what is written to them "
            "meanwhile; 0: no limit. Replicas in sync are never held back.",
        ),
        *_RATES,
        Setting(
            name=MOVES_PAUSED,
            type=SettingType.BOOLEAN,
            default=False,
            doc="Replicas that are moved copy nothing, and no move ends; everything else goes on.",
        ),
    )
)


@dataclass(frozen=True, kw_only=True)
class ReplicationSettings:
    """Of a broker."""

    default_replication_factor: int = setting(
        1,
        minimum=1,
        maximum=100,
        doc="Replicas of a topic that is made without a count, and of the broker's own topics; 3 "
        "in a cluster where nothing else is set.",
    )
    replica_lag_time_max_ms: int = setting(
        4_000,
        minimum=100,
        maximum=INT32_MAX,
        doc="A replica that has not caught up for this long leaves the in-sync set. Producers with "
        "acks=all wait for it until then; Kafka lets them wait for 30,000.",
    )
    replica_selector_class: str = setting(
        "",
        choices=("", RACK_AWARE),
        doc="With Kafka's name for it, readers that say where they stand (client.rack) read from "
        "an in-sync replica of the same broker.rack. Empty: from leaders.",
    )
    # A leader answers as soon as there is something; this only says how often it is asked in vain.
    replica_fetch_wait_max_ms: int = setting(
        500,
        minimum=1,
        maximum=60_000,
        doc="How long a leader keeps a follower's fetch waiting if there is nothing to copy.",
    )
    replica_fetch_min_bytes: int = setting(
        1,
        minimum=0,
        maximum=INT32_MAX,
        doc="Bytes for which a leader keeps a follower's fetch waiting.",
    )
    # The first batch is sent even if it is larger.
    replica_fetch_max_bytes: int = setting(
        1_048_576,
        minimum=1,
        maximum=INT32_MAX,
        doc="Bytes of one partition that a follower fetches at once.",
    )
    # Each follower has one answer in memory for each leader.
    replica_fetch_response_max_bytes: int = setting(
        10_485_760,
        minimum=1,
        maximum=INT32_MAX,
        doc="Bytes of all partitions of a leader that a follower fetches at once.",
    )
