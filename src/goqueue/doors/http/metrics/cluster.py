"""The broker itself, the cluster as it sees it, and its disk."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue import __version__
from goqueue.doors.http.metrics.families import gauge, gauges
from goqueue.model.measuring.figures import ClusterFigures


def families(figures: ClusterFigures) -> Iterable[Metric]:
    info = (__version__, str(figures.node_id), figures.cluster_id)
    yield gauges(
        "goqueue_build_info", "Always 1.", ("version", "node_id", "cluster_id"), [(info, 1)]
    )
    yield gauge("goqueue_brokers", "Brokers registered and alive.", figures.brokers)
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
        "goqueue_under_replicated_partitions",
        "Partitions that this broker leads with fewer in-sync replicas than replicas.",
        figures.under_replicated_partitions,
    )
    yield gauge(
        "goqueue_offline_partitions",
        "Partitions of this broker that storage failures took offline.",
        figures.offline_partitions,
    )
    yield gauge("goqueue_disk_total_bytes", "Size of the data disk.", figures.disk_total_bytes)
    yield gauge("goqueue_disk_usable_bytes", "Free on the data disk.", figures.disk_usable_bytes)
