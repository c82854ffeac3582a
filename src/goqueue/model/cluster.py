"""The cluster as a whole: its nodes, and partitions that are not as they should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from goqueue.model.names import NodeId
from goqueue.model.topics import BrokerView, PartitionView


class NodeStatus(StrEnum):
    ALIVE = "alive"
    # Registered, but another broker found its process gone.
    SUSPECT = "suspect"
    # Registered; its logs are being compared with what the partitions know of them.
    JOINING = "joining"
    # Hands over what it leads, and gets nothing new.
    LEAVING = "leaving"
    DEAD = "dead"


class Trouble(StrEnum):
    """What is wrong with a partition; the worst first."""

    # Nobody leads it: it can be neither read nor written.
    OFFLINE = "offline"
    # Too few are in sync: acks=all is refused.
    UNDER_MIN_IN_SYNC = "under-min-isr"
    # One of its replicas is missing, or behind.
    UNDER_REPLICATED = "under-replicated"


class Health(StrEnum):
    HEALTHY = "healthy"
    # Everything works, with less safety than it should have.
    DEGRADED = "degraded"
    # Something cannot be read or written.
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """`broker` is None while the node is down. `lagging` are its replicas that are not in sync."""

    node_id: NodeId
    status: NodeStatus
    broker: BrokerView | None
    is_controller: bool
    # Gets no new replicas.
    is_cordoned: bool
    leaders: int
    preferred_leaders: int
    replicas: int
    lagging: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """Partitions in trouble count under each thing that is wrong with them."""

    partitions: int
    offline: int
    under_min_in_sync: int
    under_replicated: int
    # Led by another than the first of their replicas.
    not_preferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """`store_failure` says why the metadata cannot be changed now; None while it can."""

    cluster_id: str
    # False for a node of one.
    is_cluster: bool
    controller_id: NodeId
    feature_level: int
    revision: int
    store_failure: str | None
    nodes: Sequence[NodeFacts]
    counts: PartitionCounts


class NamedPartition(NamedTuple):
    topic: str
    view: PartitionView


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """`troubled` are those that the caller may know of."""

    health: Health
    reasons: Sequence[str]
    counts: PartitionCounts
    troubled: Sequence[tuple[NamedPartition, Trouble]]
