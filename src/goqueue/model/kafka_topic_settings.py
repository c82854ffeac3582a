"""Kafka's topic settings that make no difference here.

Tools and clients set them on every topic they make. They are taken, kept and described, so that
such a topic can be made and a plan of its settings finds nothing to change.
"""

from dataclasses import dataclass

from goqueue.model.settings import INT32_MAX, INT64_MAX, setting


@dataclass(frozen=True, kw_only=True)
class KafkaTopicSettings:
    compression_gzip_level: int = setting(
        -1,
        minimum=-1,
        maximum=9,
        doc="Of no effect: batches that are compressed again get the library's usual level.",
    )
    compression_lz4_level: int = setting(
        9,
        minimum=1,
        maximum=17,
        doc="Of no effect, as compression.gzip.level.",
    )
    compression_zstd_level: int = setting(
        3,
        minimum=-131_072,
        maximum=22,
        doc="Of no effect, as compression.gzip.level.",
    )
    flush_messages: int = setting(
        INT64_MAX,
        minimum=1,
        doc="Of no effect: see fsync.policy for when appends reach the disk.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        (),
        doc="Replicas (partition:broker, or * for all) that copy no faster than the broker's "
        "follower.replication.throttled.rate while they are out of sync.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        (),
        doc="Leaders (partition:broker, or * for all) that send followers out of sync no more than "
        "the broker's leader.replication.throttled.rate.",
    )
    local_retention_bytes: int = setting(
        -2,
        minimum=-2,
        doc="Of no effect: there is no remote storage, see retention.bytes.",
    )
    local_retention_ms: int = setting(
        -2,
        minimum=-2,
        doc="Of no effect: there is no remote storage, see retention.ms.",
    )
    preallocate: bool = setting(
        False,
        doc="Of no effect: files grow as they are written.",
    )
    remote_copy_disable: bool = setting(
        False,
        doc="Of no effect: there is no remote storage.",
    )
    remote_log_delete_on_disable: bool = setting(
        False,
        doc="Of no effect: there is no remote storage.",
    )
    remote_storage_enable: bool = setting(
        False,
        doc="There is no remote storage: true is refused.",
    )
    segment_jitter_ms: int = setting(
        0,
        minimum=0,
        maximum=INT32_MAX,
        doc="Of no effect: segments are closed when segment.ms says so.",
    )
    unclean_leader_election_enable: bool = setting(
        False,
        doc="Of no effect: leaders that may lack messages are elected by hand, with `goqueue "
        "cluster elect --unclean`.",
    )
