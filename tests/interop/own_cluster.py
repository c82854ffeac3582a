"""Clusters of modules that kill their brokers: settings as options, and all brokers back again."""

from collections.abc import Mapping

from goqueue.testing import GoQueueCluster


def options_of(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def bring_back(cluster: GoQueueCluster) -> None:
    """Return with all brokers running, and each known to all."""
    for node in cluster.node_ids:
        if node not in cluster.running:
            cluster.restart(node)
    cluster.wait_complete()
