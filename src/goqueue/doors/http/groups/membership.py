"""/groups/{group}/join, /heartbeat, /leave: members of the classic protocol."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.doors.http.groups.fields import (
    ClientId,
    Epoch,
    GroupInPath,
    InstanceId,
    MemberId,
    ShownAnswer,
    TimeoutMs,
    TopicPartitions,
    Topics,
    client_of,
    show_partitions,
)
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.whole_numbers import whole
from goqueue.doors.web.long_poll import or_gone
from goqueue.model.caller import Caller
from goqueue.model.groups.hosted_members import (
    LEADER_ASSIGNORS,
    ClassicJoin,
    HostedMemberView,
    OffsetReset,
)
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Groups"]

AssignorName = Literal["sticky", "range", "roundrobin", "cooperative-sticky"]
Reset = Annotated[
    Literal["earliest", "latest"],
    Meta(description="Where to begin in a partition for which the group has no offset."),
]
AutoCommit = Annotated[
    bool,
    Meta(
        description="Commit what earlier polls delivered: with a poll, at most every 5 s, and when "
        "joining again or leaving."
    ),
]


class Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    topics: Topics
    member_id: Annotated[
        MemberId | None, Meta(description="When joining again; a new member is given one.")
    ] = None
    instance_id: InstanceId | None = None
    session_timeout_ms: Annotated[
        TimeoutMs, Meta(description="Without a poll or heartbeat for so long, the member is out.")
    ] = 30_000
    rebalance_timeout_ms: Annotated[
        TimeoutMs, Meta(description="How long others wait for this member to join again.")
    ] = 60_000
    assignor: Annotated[
        AssignorName | None,
        Meta(description="Without it all are offered, and the group takes one that suits all."),
    ] = None
    offset_reset: Reset = "latest"
    auto_commit: AutoCommit = False
    client_id: ClientId = "http"


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    member_id: MemberId
    generation: Annotated[
        Epoch | None, Meta(description="To be told if the group has moved on.")
    ] = None


class Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    member_id: MemberId
    instance_id: InstanceId | None = None


class Membership(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    member_id: str
    instance_id: str | None
    generation: int
    assignor: str
    is_leader: bool
    session_timeout_ms: int
    assignment: list[TopicPartitions]
    answer: ShownAnswer


@post(
    "/groups/{group:str}/join",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.READ, names="group"),
            Need(Resource.TOPIC, Verb.READ, names="topics"),
        )
    },
)
async def join_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    closing: NamedDependency[asyncio.Event],
    request: Request[Any, Any, Any],
    group: GroupInPath,
    data: JSONBody[Join],
) -> Membership:
    """Join a group, and get partitions; waits until the other members have joined again, too.

    Kafka clients of the classic protocol may be in the same group. Repeating a join changes
    nothing as long as the group is at rest.
    """
    wanted = ClassicJoin(
        group_id=group,
        topics=tuple(dict.fromkeys(data.topics)),
        member_id=data.member_id or "",
        instance_id=data.instance_id,
        session_timeout_ms=whole(data.session_timeout_ms),
        rebalance_timeout_ms=whole(data.rebalance_timeout_ms),
        assignors=LEADER_ASSIGNORS if data.assignor is None else (data.assignor,),
        offset_reset=OffsetReset(data.offset_reset),
        auto_commit=data.auto_commit,
        client=client_of(request, data.client_id),
    )
    return _show(await or_gone(service.members.join(caller, wanted), request.receive, closing))


@post(
    "/groups/{group:str}/heartbeat",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.GROUP, Verb.READ, names="group"),)},
)
async def heartbeat(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[Heartbeat],
) -> Membership:
    """Stay a member without polling. 409 `rebalance_in_progress`: join again."""
    member = await service.members.heartbeat(caller, group, data.member_id, whole(data.generation))
    return _show(member)


@post(
    "/groups/{group:str}/leave",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.GROUP, Verb.READ, names="group"),)},
)
async def leave_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[Leave],
) -> None:
    """Leave at once, rather than when the session ends; others get the partitions."""
    await service.members.leave(caller, group, data.member_id, data.instance_id)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (join_group, heartbeat, leave_group)


def _show(member: HostedMemberView) -> Membership:
    return Membership(
        group=member.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        generation=member.epoch,
        assignor=member.assignor,
        is_leader=member.is_leader,
        session_timeout_ms=member.session_timeout_ms,
        assignment=show_partitions(member.assigned),
        answer=member.answer,
    )
