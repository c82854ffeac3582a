"""/groups: list, describe, delete. Groups of HTTP members and of Kafka clients are the same."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import delete, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.groups.fields import GroupInPath, TopicPartitions, show_partitions
from goqueue.doors.http.groups.positions import GroupPartition, show_position
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.caller import Caller
from goqueue.model.groups.messages import ListGroups
from goqueue.model.groups.overview import MemberOverview
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Groups"]

StateFilter = Annotated[
    str | None,
    QueryParameter(
        name="state",
        pattern="^[A-Za-z]+$",
        description="Only groups in this state: Stable, Empty, PreparingRebalance, "
        "CompletingRebalance, NotReady, Assigning, Reconciling.",
    ),
]
TypeFilter = Annotated[
    str | None,
    QueryParameter(
        name="type",
        pattern="^[A-Za-z]+$",
        description="Only groups of this type: classic, consumer, share, streams.",
    ),
]


class GroupSummary(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    type: Annotated[str, Meta(description="classic, consumer, share or streams.")]
    state: str
    protocol_type: str


class GroupList(msgspec.Struct, frozen=True, omit_defaults=True):
    groups: list[GroupSummary]
    unanswered: UnansweredBrokers = []


class GroupMember(msgspec.Struct, frozen=True, rename="camel"):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: list[str]
    topic_regex: str | None
    epoch: Annotated[
        int | None,
        Meta(description="Of a member of the consumer or streams protocol (KIP-848, KIP-1071)."),
    ]
    assignment: list[TopicPartitions]


class GroupDescription(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    type: str
    state: str
    assignor: str
    members: list[GroupMember]
    partitions: Annotated[
        list[GroupPartition], Meta(description="All that are assigned or have an offset.")
    ]
    lag: Annotated[int, Meta(description="Of all partitions with an offset.")]


@get(
    "/groups",
    tags=_TAGS,
    responses=errors(400),
    opt={
        "needs": (Need(Resource.GROUP, Verb.DESCRIBE, refused=Refused.LEFT_OUT, or_cluster=True),)
    },
)
async def list_groups(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    in_state: StateFilter = None,
    of_type: TypeFilter = None,
) -> GroupList:
    """List groups, of Kafka clients and HTTP members alike."""
    request = ListGroups(
        states=frozenset() if in_state is None else frozenset({in_state}),
        kinds=frozenset() if of_type is None else frozenset({of_type}),
    )
    found = await service.groups.list_all(caller, request)
    return GroupList(
        [
            GroupSummary(each.group_id, each.kind.value.lower(), each.state, each.protocol_type)
            for each in found.groups
        ],
        show_unanswered(found.unanswered),
    )


@get(
    "/groups/{group:str}",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.DESCRIBE, names="group"),
            Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        )
    },
)
async def describe_group(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], group: GroupInPath
) -> GroupDescription:
    """Describe a group: members, assignment, offsets and lag per partition."""
    found = await service.groups.overview(caller, group)
    positions = await service.groups.positions(caller, found)
    partitions = [show_position(each) for each in positions]
    return GroupDescription(
        group=group,
        type=found.kind.value.lower(),
        state=found.state,
        assignor=found.assignor,
        members=[_show_member(member) for member in found.members],
        partitions=partitions,
        lag=sum(partition.lag or 0 for partition in partitions),
    )


@delete(
    "/groups/{group:str}",
    tags=_TAGS,
    responses=errors(400, 403, 404, 409),
    opt={"needs": (Need(Resource.GROUP, Verb.DELETE, names="group"),)},
)
async def delete_group(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], group: GroupInPath
) -> None:
    """Delete a group with its offsets. It must have no members."""
    await service.groups.find_and_delete(caller, group)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_groups, describe_group, delete_group)


def _show_member(member: MemberOverview) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client.client_id,
        host=member.client.host,
        topics=list(member.topics),
        topic_regex=member.topic_regex,
        epoch=member.epoch,
        assignment=show_partitions(member.held),
    )
