"""/cluster/state, /cluster/health and /cluster/metadata: the cluster as this broker sees it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.model.caller import Caller
from goqueue.model.cluster import NamedPartition, NodeFacts, PartitionCounts, Trouble
from goqueue.model.names import NO_LEADER
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import BrokerView
from goqueue.service.broker_service import BrokerService
from goqueue.service.cluster.cluster import TROUBLED_LISTED_MAX
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Cluster"]
_LIMIT_DEFAULT: Final = 1_000
# Some 2 MB of answer.
_LIMIT_MAX: Final = 10_000
_AFTER_MAX_LENGTH: Final = 300
# A topic and a partition.
_AFTER_PATTERN: Final = "^[a-zA-Z0-9._-]+/[0-9]{1,10}$"

_CLUSTER_NEED: Final = Need(Resource.CLUSTER, Verb.DESCRIBE)
_LISTING: Final[Mapping[str, Any]] = {
    "needs": (_CLUSTER_NEED, Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT))
}

Wrong = Literal["offline", "under-min-isr", "under-replicated"]


class ClusterNode(msgspec.Struct, frozen=True, rename="camel"):
    node_id: int
    status: Annotated[
        Literal["alive", "suspect", "joining", "leaving", "dead"],
        Meta(description="suspect: registered, but another broker finds its process gone."),
    ]
    host: Annotated[str | None, Meta(description="null while the node is down, as all below.")]
    kafka_port: int | None
    http_port: int | None
    rack: str | None
    epoch: Annotated[int | None, Meta(description="Another one after each registration.")]
    is_controller: bool
    is_cordoned: Annotated[
        bool, Meta(description="It gets no new replicas, and keeps those that it has.")
    ]
    leaders: int
    preferred_leaders: Annotated[
        int, Meta(description="Partitions whose first replica it is: it leads them in peace.")
    ]
    replicas: int
    lagging_replicas: Annotated[int, Meta(description="Replicas that are not in sync.")]


class CountedPartitions(msgspec.Struct, frozen=True, rename="camel"):
    partitions: int
    offline: Annotated[int, Meta(description="Without a leader.")]
    under_min_isr: Annotated[int, Meta(description="Too few are in sync for acks=all.")]
    under_replicated: Annotated[int, Meta(description="With replicas that are not in sync.")]
    not_preferred: Annotated[
        int, Meta(description="Led by another than the first of their replicas.")
    ]


class ClusterStateAnswer(msgspec.Struct, frozen=True, rename="camel"):
    cluster_id: str
    is_cluster: Annotated[bool, Meta(description="false for a node of one.")]
    controller_id: Annotated[int | None, Meta(description="null while there is none.")]
    feature_level: int
    metadata_revision: Annotated[
        int, Meta(description="How much of the metadata this broker has seen.")
    ]
    metadata_failure: Annotated[
        str | None, Meta(description="Why the metadata cannot be changed now.")
    ]
    nodes: list[ClusterNode]
    partitions: CountedPartitions


class TroubledPartition(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    problem: Annotated[Wrong, Meta(description="The worst that is wrong with it.")]
    leader: int | None
    replicas: list[int]
    isr: list[int]


class ClusterHealthAnswer(msgspec.Struct, frozen=True, rename="camel"):
    status: Annotated[
        Literal["healthy", "degraded", "unavailable"],
        Meta(
            description="degraded: all works, with less safety. unavailable: something cannot be "
            "read or written."
        ),
    ]
    reasons: list[str]
    partitions: CountedPartitions
    troubled: Annotated[
        list[TroubledPartition],
        Meta(description=f"The first {TROUBLED_LISTED_MAX}; /cluster/metadata has all."),
    ]


class PartitionMetadata(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    adding: Annotated[list[int], Meta(description="Replicas that a move adds.")]
    removing: Annotated[list[int], Meta(description="Replicas that leave when it is done.")]
    isr: Annotated[list[int], Meta(description="Replicas in sync.")]
    eligible: Annotated[
        list[int], Meta(description="Not in sync, but they have all that was acknowledged.")
    ]
    offline: Annotated[list[int], Meta(description="Replicas on nodes that are down.")]
    min_isr: int
    revision: Annotated[int, Meta(description="When this was written.")]


class BrokerAddresses(msgspec.Struct, frozen=True, rename="camel"):
    node_id: int
    kafka_address: Annotated[str, Meta(description="For `bootstrap.servers`.")]
    http_url: Annotated[str, Meta(description="For HTTP, SQS and the schema registry.")]
    rack: str | None


class ClusterMetadata(msgspec.Struct, frozen=True, rename="camel"):
    brokers: Annotated[
        list[BrokerAddresses],
        Meta(description="All that are there, the same on every page. Any of them can be asked."),
    ]
    partitions: list[PartitionMetadata]
    next_after: Annotated[str | None, Meta(description="For `after`; null on the last page.")]


@get("/cluster/state", tags=_TAGS, responses=errors(403), opt={"needs": (_CLUSTER_NEED,)})
async def cluster_state(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> ClusterStateAnswer:
    """The nodes, and how many partitions are as they should be."""
    state = await service.cluster.state(caller)
    return ClusterStateAnswer(
        cluster_id=state.cluster_id,
        is_cluster=state.is_cluster,
        controller_id=_node_id(state.controller_id),
        feature_level=state.feature_level,
        metadata_revision=state.revision,
        metadata_failure=state.store_failure,
        nodes=[_node(node) for node in state.nodes],
        partitions=_counts(state.counts),
    )


@get("/cluster/health", tags=_TAGS, responses=errors(403), opt=_LISTING)
async def cluster_health(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> ClusterHealthAnswer:
    """How the cluster is doing, and why. The status is in the answer; it is 200 all the same."""
    found = await service.cluster.health(caller)
    return ClusterHealthAnswer(
        status=found.health.value,
        reasons=list(found.reasons),
        partitions=_counts(found.counts),
        troubled=[_troubled(partition, wrong) for partition, wrong in found.troubled],
    )


@get("/cluster/metadata", tags=_TAGS, responses=errors(400, 403), opt=_LISTING)
async def cluster_metadata(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    topic: Annotated[str | None, QueryParameter(max_length=249, description="Of this one.")] = None,
    problem: Annotated[
        Wrong | None, QueryParameter(description="Only partitions with which this is wrong.")
    ] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=_LIMIT_MAX, description="Partitions in the answer at most.")
    ] = _LIMIT_DEFAULT,
    after: Annotated[
        str | None,
        QueryParameter(
            max_length=_AFTER_MAX_LENGTH,
            pattern=_AFTER_PATTERN,
            description="`nextAfter` of the page before.",
        ),
    ] = None,
) -> ClusterMetadata:
    """Where all brokers are; who leads, has and follows each partition, by topic and number."""
    page = await service.cluster.partitions(
        caller,
        topic=topic,
        wrong=None if problem is None else Trouble(problem),
        after=None if after is None else _place(after),
        limit=limit,
    )
    last = page.partitions[-1] if page.has_more else None
    brokers = service.cluster.quorum(caller).brokers
    return ClusterMetadata(
        [_addresses(broker) for broker in sorted(brokers, key=lambda each: each.node_id)],
        [_partition(partition) for partition in page.partitions],
        None if last is None else f"{last.topic}/{last.view.index}",
    )


def _place(after: str) -> tuple[str, int]:
    topic, _, number = after.rpartition("/")
    return topic, int(number)


def _node_id(node_id: int) -> int | None:
    return None if node_id == NO_LEADER else node_id


def _node(node: NodeFacts) -> ClusterNode:
    broker = node.broker
    return ClusterNode(
        node_id=node.node_id,
        status=node.status.value,
        host=None if broker is None else broker.host,
        kafka_port=None if broker is None else broker.kafka_port,
        http_port=None if broker is None else broker.http_port,
        rack=None if broker is None else broker.rack,
        epoch=None if broker is None else broker.epoch,
        is_controller=node.is_controller,
        is_cordoned=node.is_cordoned,
        leaders=node.leaders,
        preferred_leaders=node.preferred_leaders,
        replicas=node.replicas,
        lagging_replicas=node.lagging,
    )


def _addresses(broker: BrokerView) -> BrokerAddresses:
    return BrokerAddresses(
        node_id=broker.node_id,
        kafka_address=broker.kafka_address,
        http_url=broker.http_url,
        rack=broker.rack,
    )


def _counts(counts: PartitionCounts) -> CountedPartitions:
    return CountedPartitions(
        partitions=counts.partitions,
        offline=counts.offline,
        under_min_isr=counts.under_min_in_sync,
        under_replicated=counts.under_replicated,
        not_preferred=counts.not_preferred,
    )


def _troubled(partition: NamedPartition, wrong: Trouble) -> TroubledPartition:
    view = partition.view
    return TroubledPartition(
        topic=partition.topic,
        partition=view.index,
        problem=wrong.value,
        leader=_node_id(view.leader),
        replicas=list(view.replicas),
        isr=list(view.isr),
    )


def _partition(partition: NamedPartition) -> PartitionMetadata:
    view = partition.view
    return PartitionMetadata(
        topic=partition.topic,
        partition=view.index,
        leader=_node_id(view.leader),
        leader_epoch=view.leader_epoch,
        replicas=list(view.replicas),
        adding=list(view.state.adding),
        removing=list(view.state.removing),
        isr=list(view.isr),
        eligible=list(view.eligible),
        offline=list(view.offline),
        min_isr=view.state.min_in_sync,
        revision=view.revision,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (cluster_state, cluster_health, cluster_metadata)
