"""Brokers that take no new replicas, and keep those that they have (KIP-1066).

A broker has one directory, so it is cordoned if any is named. What was set at run time holds; else
what the broker said when it registered, which the cluster remembers while it is down.
"""

from collections.abc import Mapping

from goqueue.model.cluster_config import CORDONED_LOG_DIRS
from goqueue.model.names import NodeId
from goqueue.state.metadata_image import MetadataImage


def cordoned(image: MetadataImage) -> set[NodeId]:
    """Of a cluster's nodes."""
    return {
        node
        for node in image.nodes
        if is_cordoned(image.broker_config(node), at_start=_as_registered(image, node))
    }


def is_cordoned(overrides: Mapping[str, str], *, at_start: bool) -> bool:
    """`overrides` were set at run time for this broker."""
    text = overrides.get(CORDONED_LOG_DIRS)
    return at_start if text is None else bool(text.strip(" ,"))


def _as_registered(image: MetadataImage, node: NodeId) -> bool:
    broker = image.brokers.get(node)
    if broker is not None and broker.registration is not None:
        return broker.registration.is_cordoned
    return image.nodes[node].record.is_cordoned
