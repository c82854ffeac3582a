"""The broker itself, the cluster as it sees it, and its disk."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue import __version__
from goqueue.doors.http.metrics.families import counter, gauge, gauges, histogram
from goqueue.model.measuring.figures import ClusterFigures, ReplicationFigures


def families(figures: ClusterFigures) -> Iterable[Metric]:
    info = (__version__, str(figures.node_id), figures.cluster_id)
    yield gauges(
        "goqueue_build_info", "Always 1.", ("version", "node_id", "cluster_id"), [(info, 1)]
    )
    yield gauge("goqueue_brokers", "Brokers registered and alive.", figures.brokers)
    yield gauge("goqueue_nodes_down", "Nodes of the cluster that are down.", figures.nodes_down)
    yield gauge(
        "goqueue_nodes_suspect",
        "Nodes that are registered, but were found gone by another.",
        figures.nodes_suspect,
    )
    yield gauge(
        "goqueue_active_controller",
        "1 if this broker is the cluster's controller, else 0.",
        figures.is_controller,
    )
    yield gauge("goqueue_topics", "Topics.", figures.topics)
    yield gauge(
        "goqueue_partitions_without_leader",
        "Partitions of the cluster that no broker leads.",
        figures.partitions_without_leader,
    )
    yield gauge(
        "goqueue_moving_partitions",
        "Partitions of the cluster that are on their way to other brokers.",
        figures.moving_partitions,
    )
    yield gauge(
        "goqueue_moves_paused",
        "1 if moves of partitions are paused, else 0.",
        figures.are_moves_paused,
    )
    yield gauge("goqueue_leaders", "Partitions that this broker leads.", figures.leaders)
    yield gauge(
        "goqueue_under_replicated_partitions",
        "Partitions that this broker leads with fewer in-sync replicas than replicas.",
        figures.under_replicated_partitions,
    )
    yield gauge(
        "goqueue_under_min_isr_partitions",
        "Partitions that this broker leads with too few in-sync replicas for acks=all.",
        figures.under_min_in_sync_partitions,
    )
    yield from _replication(figures.replication)
    yield gauge(
        "goqueue_offline_partitions",
        "Partitions of this broker that storage failures took offline.",
        figures.offline_partitions,
    )
    yield gauge(
        "goqueue_metadata_available",
        "1 if the metadata store answers, else 0.",
        figures.is_metadata_available,
    )
    yield histogram(
        "goqueue_metadata_request_duration_seconds",
        "Requests to the metadata store: etcd, or the broker's own.",
        figures.metadata_latencies,
    )
    yield gauge("goqueue_disk_total_bytes", "Size of the data disk.", figures.disk_total_bytes)
    yield gauge("goqueue_disk_usable_bytes", "Free on the data disk.", figures.disk_usable_bytes)


def _replication(figures: ReplicationFigures) -> Iterable[Metric]:
    yield gauge(
        "goqueue_replica_lag_messages",
        "Messages that a follower lacks of a partition led here; the most of all.",
        figures.lag,
    )
    yield gauge(
        "goqueue_standby_lag_records",
        "Records that this broker has copied of another's state and not replayed; the most of all.",
        figures.standby_lag,
    )
    yield gauge(
        "goqueue_added_copies",
        "Copies that moves add to partitions led here, and that are not in sync yet.",
        figures.added_copies,
    )
    yield gauge(
        "goqueue_added_copies_left_bytes",
        "What these copies lack, about.",
        figures.added_bytes_left,
    )
    yield counter(
        "goqueue_moved_in_bytes",
        "Copied by this broker for moves since the start.",
        figures.moved_in_bytes,
    )
    yield counter(
        "goqueue_isr_shrinks",
        "Replicas taken out of in-sync sets since the start.",
        figures.in_sync_shrinks,
    )
    yield counter(
        "goqueue_isr_expands",
        "Replicas that caught up and joined in-sync sets since the start.",
        figures.in_sync_growths,
    )
    yield counter(
        "goqueue_leader_elections",
        "Times that this broker began to lead a partition of a cluster.",
        figures.elections,
    )
