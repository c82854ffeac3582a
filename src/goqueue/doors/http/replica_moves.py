"""/cluster/moves, /cluster/plans and /cluster/nodes: replicas go from broker to broker."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import NewName
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.doors.http.whole_numbers import PartitionNumber, whole
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.moves import MovePlan, PartitionMove
from goqueue.model.names import NO_LEADER, NodeId, TopicPartition, topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.model.settings import INT32_MAX
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Cluster"]
# As many as a plan has; each is a transaction of its own.
_MOVES_MAX: Final = 1_000
# More brokers than that have no copy of one partition.
_REPLICAS_MAX: Final = 100
# Text with a pattern: an optional number would take `null`, and lose its limits in the document.
_NUMBER: Final = r"^[0-9]{1,10}$"
# A petabyte per second; whoever wants more says nothing.
_RATE_MAX: Final = 10**15

_ALTER: Final[Mapping[str, Any]] = {"needs": (Need(Resource.CLUSTER, Verb.ALTER),)}
_CONFIGURE: Final[Mapping[str, Any]] = {"needs": (Need(Resource.CLUSTER, Verb.ALTER_CONFIGS),)}
_LISTING: Final[Mapping[str, Any]] = {
    "needs": (
        Need(Resource.CLUSTER, Verb.DESCRIBE),
        Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
    )
}

NodeNumber = Annotated[float, Meta(ge=0, le=INT32_MAX, multiple_of=1)]
NodeInPath = Annotated[int, PathParameter(ge=0, le=INT32_MAX, description="The node's number.")]
Rate = Annotated[float, Meta(ge=0, le=_RATE_MAX, multiple_of=1)]


class CopyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    node_id: int
    is_in_sync: bool
    bytes_left: Annotated[
        int | None, Meta(description="null while a broker concerned does not answer.")
    ]
    messages_left: int | None


class MoveAnswer(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    leader: int | None
    replicas: Annotated[
        list[int], Meta(description="As they are now: those before, and added ones.")
    ]
    before: list[int]
    target: list[int]
    adding: Annotated[list[CopyAnswer], Meta(description="Copies that are being made.")]
    removing: list[int]


class MoveList(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    moves: list[MoveAnswer]
    is_paused: bool
    rate_bytes: Annotated[
        int | None,
        Meta(description="Bytes per second of each broker; null: as fast as it goes."),
    ]
    unanswered: UnansweredBrokers = []


class WantedMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: NewName
    partition: PartitionNumber
    replicas: Annotated[
        list[NodeNumber],
        Meta(
            min_length=1,
            max_length=_REPLICAS_MAX,
            description="Where it is to be, the preferred leader first.",
        ),
    ]


class BeginMoves(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    moves: Annotated[list[WantedMove], Meta(min_length=1, max_length=_MOVES_MAX)]


class ErrorOfMove(msgspec.Struct, frozen=True):
    code: str
    message: str


class MoveResult(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    error: Annotated[ErrorOfMove | None, Meta(description="null where it was done.")]


class MoveResults(msgspec.Struct, frozen=True):
    results: list[MoveResult]


class HoldBack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    is_paused: Annotated[bool | None, Meta(description="Without it, or null: as it is.")] = None
    rate_bytes: Annotated[
        Rate | None,
        Meta(
            description="Bytes per second of each broker, on top of what is written to the "
            "partitions meanwhile; 0: as fast as it goes. null: as it is."
        ),
    ] = None


class AlterNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    is_cordoned: Annotated[bool, Meta(description="Whether the node gets no new replicas.")]


class MoveOfPlanAnswer(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    before: list[int]
    replicas: Annotated[list[int], Meta(description="As `POST /cluster/moves` takes it.")]
    size_bytes: Annotated[int, Meta(description="Of one copy.")]


class PartitionOfPlan(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class PlanAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    moves: list[MoveOfPlanAnswer]
    copied_bytes: Annotated[int, Meta(description="What goes over the network for all of it.")]
    stuck: Annotated[
        list[PartitionOfPlan],
        Meta(description="Partitions with a replica that no other broker can take."),
    ]
    unanswered: UnansweredBrokers = []


@get("/cluster/moves", tags=_TAGS, responses=errors(403), opt=_LISTING)
async def list_moves(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> MoveList:
    """Partitions that are on their way to other brokers, and how far they are."""
    found = await service.replica_moves.going_on(caller)
    return MoveList(
        moves=[_shown(move) for move in found.moves],
        is_paused=found.is_paused,
        rate_bytes=found.rate_bytes,
        unanswered=show_unanswered(found.unanswered),
    )


@post(
    "/cluster/moves",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 413, 415, 422),
    opt=_ALTER,
)
async def begin_moves(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[BeginMoves],
) -> MoveResults:
    """Begin to move partitions; from then on they go by themselves. Says of each why not."""
    wanted = {
        topic_partition(each.topic, whole(each.partition)): [whole(node) for node in each.replicas]
        for each in data.moves
    }
    return _results(await service.replica_moves.alter(caller, wanted))


@delete(
    "/cluster/moves",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403),
    opt=_ALTER,
)
async def cancel_moves(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    topic: Annotated[str | None, QueryParameter(max_length=249, description="Of this one.")] = None,
    partition: Annotated[
        str | None, QueryParameter(pattern=_NUMBER, description="Only this one.")
    ] = None,
) -> MoveResults:
    """Take back moves: the replicas are those before."""
    number = None if partition is None else int(partition)
    return _results(await service.replica_moves.cancel(caller, topic, number))


@patch(
    "/cluster/moves",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 409, 413, 415),
    opt=_CONFIGURE,
)
async def hold_back(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[HoldBack],
) -> None:
    """Pause all moves, let them go on, or hold them to a rate."""
    await service.replica_moves.hold_back(
        caller, is_paused=data.is_paused, rate_bytes=whole(data.rate_bytes)
    )


@get("/cluster/plans/drain/{node_id:int}", tags=_TAGS, responses=errors(400, 403, 404), opt=_ALTER)
async def drain_plan(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], node_id: NodeInPath
) -> PlanAnswer:
    """Moves with which a node has no replicas any more. Nothing is changed by asking."""
    return _planned(await service.replica_moves.drain_plan(caller, NodeId(node_id)))


@get("/cluster/plans/rebalance", tags=_TAGS, responses=errors(403), opt=_ALTER)
async def rebalance_plan(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> PlanAnswer:
    """Moves with which all brokers carry about the same of bytes, traffic and replicas. Nothing is
    changed by asking."""
    return _planned(await service.replica_moves.rebalance_plan(caller))


@patch(
    "/cluster/nodes/{node_id:int}",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 404, 413, 415),
    opt=_CONFIGURE,
)
async def alter_node(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    node_id: NodeInPath,
    data: JSONBody[AlterNode],
) -> None:
    """Cordon a node: it gets no new replicas, and keeps those that it has until they are moved."""
    await service.replica_moves.cordon(caller, NodeId(node_id), is_cordoned=data.is_cordoned)


@delete(
    "/cluster/nodes/{node_id:int}", tags=_TAGS, responses=errors(400, 403, 404, 409), opt=_ALTER
)
async def forget_node(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], node_id: NodeInPath
) -> None:
    """Forget a node that is stopped and does not come back."""
    await service.cluster.forget_node(caller, NodeId(node_id))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    list_moves,
    begin_moves,
    cancel_moves,
    hold_back,
    drain_plan,
    rebalance_plan,
    alter_node,
    forget_node,
)


def _shown(move: PartitionMove) -> MoveAnswer:
    view = move.view
    going = view.state.move
    assert going is not None
    return MoveAnswer(
        topic=move.topic,
        partition=view.index,
        leader=None if view.leader == NO_LEADER else view.leader,
        replicas=list(view.replicas),
        before=list(going.before),
        target=list(going.target),
        adding=[CopyAnswer(*copy) for copy in move.copies],
        removing=list(going.removing),
    )


def _results(answers: Mapping[TopicPartition, GoQueueError | None]) -> MoveResults:
    return MoveResults(
        [
            MoveResult(
                name.topic,
                name.partition,
                None if failure is None else ErrorOfMove(failure.code, failure.message),
            )
            for name, failure in answers.items()
        ]
    )


def _planned(plan: MovePlan) -> PlanAnswer:
    return PlanAnswer(
        moves=[
            MoveOfPlanAnswer(
                each.topic, each.partition, list(each.replicas), list(each.target), each.size_bytes
            )
            for each in plan.moves
        ],
        copied_bytes=plan.copied_bytes,
        stuck=[PartitionOfPlan(*each) for each in plan.stuck],
        unanswered=show_unanswered(plan.unanswered),
    )
