"""/groups/{group}/…/cooperative, /revoke: members of the consumer protocol (KIP-848)."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.doors.http.groups.fields import (
    GROUP_NAME_MAX_LENGTH,
    TOPICS_MAX,
    ClientId,
    Epoch,
    GroupInPath,
    InstanceId,
    MemberId,
    NamedPartitions,
    ShownAnswer,
    TimeoutMs,
    TopicPartitions,
    client_of,
    named_partitions,
    show_partitions,
)
from goqueue.doors.http.groups.membership import AutoCommit, Reset
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import NewName
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.caller import Caller
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import CooperativeJoin, HostedMemberView, OffsetReset
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Groups, cooperative"]
_REGEX_MAX_LENGTH: Final = 1_000


class CooperativeJoinBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    topics: Annotated[list[NewName], Meta(max_length=TOPICS_MAX)] = []
    topic_regex: Annotated[
        Annotated[str, Meta(max_length=_REGEX_MAX_LENGTH)] | None,
        Meta(description="Topics by an RE2 expression, too."),
    ] = None
    member_id: Annotated[
        MemberId | None, Meta(description="One of the client's own choice, such as a UUID.")
    ] = None
    instance_id: InstanceId | None = None
    rack_id: Annotated[str, Meta(min_length=1, max_length=GROUP_NAME_MAX_LENGTH)] | None = None
    rebalance_timeout_ms: Annotated[
        TimeoutMs,
        Meta(description="How long the member may take to give up a partition before it is out."),
    ] = 60_000
    assignor: Annotated[
        Literal["uniform", "range"] | None,
        Meta(description="The one that most members ask for is used; by default `uniform`."),
    ] = None
    offset_reset: Reset = "latest"
    auto_commit: AutoCommit = False
    client_id: ClientId = "http"


class CooperativeHeartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    member_id: MemberId
    member_epoch: Annotated[
        Epoch | None, Meta(description="To be told if it is not the current one.")
    ] = None


class Revoke(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    member_id: MemberId
    member_epoch: Epoch | None = None
    partitions: Annotated[
        Annotated[list[NamedPartitions], Meta(max_length=TOPICS_MAX)] | None,
        Meta(description="Without it: all that `revoke` named."),
    ] = None


class CooperativeLeave(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    member_id: MemberId
    keep_place: Annotated[
        bool,
        Meta(description="A static member's partitions wait for it until its session ends."),
    ] = False


class CooperativeMembership(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    member_id: str
    instance_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    session_timeout_ms: int
    assignment: list[TopicPartitions]
    answer: ShownAnswer
    revoke: Annotated[
        list[TopicPartitions],
        Meta(description="To give up: finish, commit, and confirm with POST …/revoke."),
    ]


class CooperativeMember(msgspec.Struct, frozen=True, rename="camel"):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    host: str
    topics: list[str]
    topic_regex: str | None
    assignment: list[TopicPartitions]
    target: Annotated[
        list[TopicPartitions], Meta(description="What it will have when all have given up theirs.")
    ]
    uses_classic_protocol: bool


class CooperativeGroup(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: list[CooperativeMember]


@post(
    "/groups/{group:str}/join/cooperative",
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
async def join_cooperative(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
    group: GroupInPath,
    data: JSONBody[CooperativeJoinBody],
) -> CooperativeMembership:
    """Join a group; nobody waits, and partitions come with the next polls and heartbeats.

    Kafka clients with `group.protocol=consumer` may be in the same group.
    """
    if not data.topics and not data.topic_regex:
        raise GroupRefused(GroupError.INVALID_REQUEST, "topics, topicRegex: give one of the two")
    wanted = CooperativeJoin(
        group_id=group,
        topics=tuple(dict.fromkeys(data.topics)),
        topic_regex=data.topic_regex,
        member_id=data.member_id or "",
        instance_id=data.instance_id,
        rack_id=data.rack_id,
        rebalance_timeout_ms=whole(data.rebalance_timeout_ms),
        assignor=data.assignor,
        offset_reset=OffsetReset(data.offset_reset),
        auto_commit=data.auto_commit,
        client=client_of(request, data.client_id),
    )
    return _show(await service.members.join_cooperative(caller, wanted))


@post(
    "/groups/{group:str}/heartbeat/cooperative",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.GROUP, Verb.READ, names="group"),)},
)
async def heartbeat_cooperative(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[CooperativeHeartbeat],
) -> CooperativeMembership:
    """Stay a member without polling, and hear what has changed."""
    member = await service.members.heartbeat_cooperative(
        caller, group, data.member_id, whole(data.member_epoch)
    )
    return _show(member)


@post(
    "/groups/{group:str}/revoke",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.GROUP, Verb.READ, names="group"),)},
)
async def revoke_partitions(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[Revoke],
) -> CooperativeMembership:
    """Confirm that partitions are given up, so that others may have them."""
    partitions = None if data.partitions is None else named_partitions(data.partitions)
    member = await service.members.revoke(
        caller, group, data.member_id, partitions, whole(data.member_epoch)
    )
    return _show(member)


@post(
    "/groups/{group:str}/leave/cooperative",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.GROUP, Verb.READ, names="group"),)},
)
async def leave_cooperative(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[CooperativeLeave],
) -> None:
    """Leave at once, rather than when the session ends; others get the partitions."""
    await service.members.leave_cooperative(
        caller, group, data.member_id, keeps_place=data.keep_place
    )


@get(
    "/groups/{group:str}/cooperative",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.DESCRIBE, names="group"),
            Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        )
    },
)
async def describe_cooperative(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], group: GroupInPath
) -> CooperativeGroup:
    """Describe a group of the consumer protocol: epochs, and where its members are heading."""
    found = await service.groups.find_consumer(caller, group)
    return CooperativeGroup(
        group=group,
        state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=found.assignor,
        members=[
            CooperativeMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.member_epoch,
                client_id=member.client.client_id,
                host=member.client.host,
                topics=list(member.subscribed_topics),
                topic_regex=member.subscribed_regex or None,
                assignment=show_partitions(found.named(member.assignment)),
                target=show_partitions(found.named(member.target)),
                uses_classic_protocol=member.uses_classic_protocol,
            )
            for member in found.members
        ],
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    join_cooperative,
    heartbeat_cooperative,
    revoke_partitions,
    leave_cooperative,
    describe_cooperative,
)


def _show(member: HostedMemberView) -> CooperativeMembership:
    return CooperativeMembership(
        group=member.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=member.heartbeat_interval_ms,
        session_timeout_ms=member.session_timeout_ms,
        assignment=show_partitions(member.assigned),
        answer=member.answer,
        revoke=show_partitions(member.to_revoke),
    )
