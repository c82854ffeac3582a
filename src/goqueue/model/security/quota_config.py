"""Settings of quotas: over which time they are measured, and how fast connections may come."""

from dataclasses import dataclass

from goqueue.model.settings import INT32_MAX, setting


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    # Kafka measures over ten times as long; who was idle may then send ten seconds' worth at once.
    quota_window_size_seconds: int = setting(
        1,
        minimum=1,
        maximum=3_600,
        doc="Who was idle may use as much at once as its quota gives in this long.",
    )
    # Kafka's: a quota of 5 per second must let through a topic of 50 partitions.
    controller_quota_window_num: int = setting(
        11,
        minimum=1,
        maximum=3_600,
        doc="Who was idle may make or delete as many partitions at once as its "
        "controller_mutation_rate gives in this many seconds.",
    )
    max_connection_creation_rate: int = setting(
        INT32_MAX,
        minimum=1,
        maximum=INT32_MAX,
        doc="Kafka connections per second that this broker begins to serve; further ones wait.",
    )
