"""/groups/{group}/assignment: who reads what, whichever protocol the members speak."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from goqueue.doors.http.groups.fields import (
    MEMBER_ID_MAX_LENGTH,
    GroupInPath,
    TopicPartitions,
    show_partitions,
)
from goqueue.doors.http.openapi import errors
from goqueue.model.caller import Caller
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused


class MemberAssignment(msgspec.Struct, frozen=True, rename="camel"):
    member_id: str
    assignment: list[TopicPartitions]


class GroupAssignment(msgspec.Struct, frozen=True):
    group: str
    state: str
    members: list[MemberAssignment]


@get(
    "/groups/{group:str}/assignment",
    tags=["Groups"],
    responses=errors(400, 403, 404, 409),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.DESCRIBE, names="group"),
            Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        )
    },
)
async def group_assignment(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    member_id: Annotated[
        str | None,
        QueryParameter(
            name="memberId",
            min_length=1,
            max_length=MEMBER_ID_MAX_LENGTH,
            description="Only this member.",
        ),
    ] = None,
) -> GroupAssignment:
    """The partitions of each member. A classic group in a rebalance has none."""
    found = await service.groups.overview(caller, group)
    members = [
        MemberAssignment(member.member_id, show_partitions(member.held))
        for member in found.members
        if member_id in (None, member.member_id)
    ]
    if member_id is not None and not members:
        raise GroupRefused(GroupError.UNKNOWN_MEMBER_ID)
    return GroupAssignment(group, found.state, members)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (group_assignment,)
