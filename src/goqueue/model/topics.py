"""Topics, their partitions and the brokers that host them, as everyone sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.calls import Unanswered
from goqueue.model.companions import DELAYED, QUEUE_STATE, is_companion
from goqueue.model.configs import ConfigEntry
from goqueue.model.layouts import Split
from goqueue.model.membership import Registration
from goqueue.model.names import NO_LEADER, NodeId, PartitionIndex, TopicName
from goqueue.model.replication import Member, PartitionState

# Where groups and their offsets are kept; part of a transaction that commits offsets.
OFFSETS_TOPIC: Final = "__consumer_offsets"
# The audit of all brokers. Whoever may see the cluster may read it, and nobody else.
AUDIT_TOPIC: Final = "__audit"
# Topics that only the broker itself writes.
INTERNAL_TOPICS: Final = frozenset(
    {
        OFFSETS_TOPIC,
        "__transaction_state",
        "__share_group_state",
        QUEUE_STATE,
        DELAYED,
        "_schemas",
        AUDIT_TOPIC,
    }
)


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS or is_companion(name)


# Stands for a partition whose own key is not there, though its topic's is.
UNKNOWN_STATE: Final = PartitionState(leader=NO_LEADER, leader_epoch=-1, replicas=(), in_sync=())


class BrokerView(NamedTuple):
    """`epoch` tells one registration from the next of the same node: the revision at which it was
    written. A node of one says nothing of itself but where it is reached."""

    node_id: NodeId
    host: str
    kafka_port: int
    http_port: int
    rack: str | None
    epoch: int = 0
    registration: Registration | None = None
    has_tls: bool = False

    @property
    def kafka_address(self) -> str:
        """As clients take it for their `bootstrap.servers`."""
        return f"{self._host_in_address}:{self.kafka_port}"

    @property
    def http_url(self) -> str:
        scheme = "https" if self.has_tls else "http"
        return f"{scheme}://{self._host_in_address}:{self.http_port}"

    @property
    def _host_in_address(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`revision` is that of the partition's key: whoever changes the state compares it.

    `offline` are the replicas on brokers that are not registered.
    """

    index: PartitionIndex
    state: PartitionState
    revision: int
    offline: tuple[NodeId, ...] = ()

    @property
    def leader(self) -> NodeId:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        return self.state.replicas

    @property
    def isr(self) -> tuple[NodeId, ...]:
        return _nodes(self.state.in_sync)

    @property
    def eligible(self) -> tuple[NodeId, ...]:
        """Eligible leader replicas: not in sync, but they have everything committed (KIP-966)."""
        return _nodes(self.state.eligible)

    @property
    def is_known(self) -> bool:
        """False only while the topic's key is there and the partition's own is not."""
        return self.state is not UNKNOWN_STATE


def _nodes(members: tuple[Member, ...]) -> tuple[NodeId, ...]:
    return tuple(member.node for member in members)


@dataclass(frozen=True, slots=True)
class TopicView:
    """`config` has the topic's own settings only, as text; `splits` are oldest first."""

    name: TopicName
    id: UUID
    partitions: tuple[PartitionView, ...]
    config: Mapping[str, str]
    splits: tuple[Split, ...] = ()
    # Written by the broker alone. Whoever counts topics asks it of thousands.
    is_internal: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_internal", is_internal(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Mapping[int, Sequence[int]] | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition's log at its leader. Numbers are None where it has none, or cannot read it."""

    index: PartitionIndex
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None
    offline_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with what is stored of it. `config` is None for those who may not see settings."""

    topic: TopicView
    partitions: Sequence[StoredPartition]
    config: Sequence[ConfigEntry] | None

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes or 0 for partition in self.partitions)


class TopicSizes(NamedTuple):
    """Topics with their bytes, and brokers whose bytes are missing."""

    topics: list[tuple[TopicView, int]]
    unanswered: list[Unanswered]


class ClusterView(NamedTuple):
    """`fenced` are registered, but neither lead nor follow yet; clients have no use for them.
    `departed` were there until a while ago: clients should not forget them at once."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerView, ...]
    fenced: tuple[BrokerView, ...] = ()
    departed: tuple[BrokerView, ...] = ()


class QuorumView(NamedTuple):
    """`revision` is the last of the metadata that is known; `brokers` are those admitted."""

    controller_id: int
    revision: int
    brokers: tuple[BrokerView, ...]


class LeaderView(NamedTuple):
    """Who leads a partition; the broker is None while it is not there."""

    node_id: NodeId
    epoch: int
    broker: BrokerView | None


@dataclass(frozen=True, slots=True)
class OfflinePartition:
    topic: str
    index: int
    reason: str
