"""The broker itself, the cluster as it sees it, and its disk."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue import __version__
from goqueue.broker.node import Node
from goqueue.doors.http.metrics.families import Families, gauge, gauges
from goqueue.model.names import NO_LEADER
from goqueue.state.metadata_image import MetadataImage


def read(broker: Node) -> Families:
    image, offline_count = broker.image, len(broker.offline_partitions)

    def families() -> Iterable[Metric]:
        info = (__version__, str(broker.node_id), broker.cluster_id)
        yield gauges(
            "goqueue_build_info", "Always 1.", ("version", "node_id", "cluster_id"), [(info, 1)]
        )
        yield from _cluster(image, broker.node_id)
        yield gauge(
            "goqueue_offline_partitions",
            "Partitions of this broker that storage failures took offline.",
            offline_count,
        )
        disk = broker.log_dirs()
        yield gauge("goqueue_disk_total_bytes", "Size of the data disk.", disk.total_bytes)
        yield gauge("goqueue_disk_usable_bytes", "Free on the data disk.", disk.usable_bytes)

    return families


def _cluster(image: MetadataImage, node_id: int) -> Iterable[Metric]:
    partitions = [part for topic in image.topics.values() for part in topic.partitions]
    yield gauge("goqueue_brokers", "Brokers registered and alive.", len(image.brokers))
    yield gauge(
        "goqueue_active_controller",
        "1 if this broker is the cluster's controller, else 0.",
        image.controller_id == node_id,
    )
    yield gauge("goqueue_topics", "Topics.", len(image.topics))
    yield gauge(
        "goqueue_partitions_without_leader",
        "Partitions of the cluster that no broker leads.",
        sum(part.leader == NO_LEADER for part in partitions),
    )
    yield gauge(
        "goqueue_under_replicated_partitions",
        "Partitions that this broker leads with fewer in-sync replicas than replicas.",
        sum(part.leader == node_id and len(part.isr) < len(part.replicas) for part in partitions),
    )
