"""Settings for topics that get more partitions while they are used."""

from dataclasses import dataclass

from goqueue.model.settings import setting


@dataclass(frozen=True, kw_only=True)
class ScalingSettings:
    """Of a broker."""

    # A producer that sends learns of a split at once, and what it has on its way is there a second
    # later. One that is idle keeps what it knows for as long as its `metadata.max.age.ms` says,
    # five minutes in most clients: who has such producers and needs the order sets as much here.
    scale_drain_ms: int = setting(
        10_000,
        minimum=100,
        maximum=3_600_000,
        doc="How long producers have to learn that a topic was split, before readers get the new "
        "partitions.",
    )
    # Whoever has read something commits within seconds (`auto.commit.interval.ms` is 5 s); a group
    # that began at the end of an idle parent has nothing to commit, and must not wait for ever.
    scale_uncommitted_ms: int = setting(
        60_000,
        minimum=1_000,
        maximum=86_400_000,
        doc="How long a group with members that has committed nothing in a partition is kept from "
        "those split off it.",
    )
