"""/groups: list, describe, delete. Groups of HTTP members and of Kafka clients are the same."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import delete, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.broker.node import Node
from goqueue.doors.http.groups.fields import GroupInPath, TopicPartitions, show_partitions
from goqueue.doors.http.groups.positions import GroupPartition, positions_of
from goqueue.doors.http.openapi import errors
from goqueue.model.groups.assignment import Assignment
from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    read_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedGroup,
    DescribedMember,
    ListGroups,
)
from goqueue.model.groups.refusals import GroupRefused, check
from goqueue.model.names import TopicPartition, topic_partition

_TAGS: Final = ["Groups"]

StateFilter = Annotated[
    str | None,
    QueryParameter(
        name="state",
        pattern="^[A-Za-z]+$",
        description="Only groups in this state: Stable, Empty, PreparingRebalance, "
        "CompletingRebalance, Assigning, Reconciling.",
    ),
]
TypeFilter = Annotated[
    str | None,
    QueryParameter(
        name="type",
        pattern="^[A-Za-z]+$",
        description="Only groups of this type: classic, consumer, share.",
    ),
]


class GroupSummary(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    type: Annotated[str, Meta(description="classic, consumer or share.")]
    state: str
    protocol_type: str


class GroupList(msgspec.Struct, frozen=True):
    groups: list[GroupSummary]


class GroupMember(msgspec.Struct, frozen=True, rename="camel"):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: list[str]
    topic_regex: str | None
    epoch: Annotated[
        int | None, Meta(description="Of a member of the consumer protocol (KIP-848).")
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


@get("/groups", tags=_TAGS, responses=errors(400))
async def list_groups(
    broker: NamedDependency[Node],
    in_state: StateFilter = None,
    of_type: TypeFilter = None,
) -> GroupList:
    """List groups, of Kafka clients and HTTP members alike."""
    request = ListGroups(
        states=frozenset() if in_state is None else frozenset({in_state}),
        kinds=frozenset() if of_type is None else frozenset({of_type}),
    )
    found = await broker.groups.list(request)
    return GroupList(
        [
            GroupSummary(each.group_id, each.kind.value.lower(), each.state, each.protocol_type)
            for each in sorted(found, key=lambda each: each.group_id)
        ]
    )


@get("/groups/{group:str}", tags=_TAGS, responses=errors(400, 404))
async def describe_group(broker: NamedDependency[Node], group: GroupInPath) -> GroupDescription:
    """Describe a group: members, assignment, offsets and lag per partition."""
    found = await find_group(broker, group)
    members: list[GroupMember] = []
    owners: dict[TopicPartition, str] = {}
    for member in found.members:
        held = held_by(broker, member)
        owners.update(dict.fromkeys(held, member.member_id))
        members.append(_show_member(member, held))
    partitions = await positions_of(broker, group, owners)
    is_classic = isinstance(found, DescribedGroup)
    return GroupDescription(
        group=group,
        type="classic" if is_classic else "consumer",
        state=found.state,
        assignor=found.protocol_name if isinstance(found, DescribedGroup) else found.assignor,
        members=members,
        partitions=partitions,
        lag=sum(partition.lag or 0 for partition in partitions),
    )


@delete("/groups/{group:str}", tags=_TAGS, responses=errors(400, 404, 409))
async def delete_group(broker: NamedDependency[Node], group: GroupInPath) -> None:
    """Delete a group with its offsets. It must have no members."""
    if not broker.groups.state.exists:
        raise GroupRefused(GroupError.GROUP_ID_NOT_FOUND)
    check((await broker.groups.delete(group)).error)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_groups, describe_group, delete_group)


async def find_group(broker: Node, group: str) -> DescribedGroup | DescribedConsumerGroup:
    """A group of either protocol, or `GroupRefused`."""
    if not broker.groups.state.exists:
        raise GroupRefused(GroupError.GROUP_ID_NOT_FOUND)
    consumer = await broker.groups.describe_consumer(group)
    if consumer.error is GroupError.NONE:
        return consumer
    classic = await broker.groups.describe(group)
    check(classic.error)
    return classic


def held_by(
    broker: Node, member: DescribedMember | DescribedConsumerMember
) -> list[TopicPartition]:
    if isinstance(member, DescribedConsumerMember):
        return partitions_named(broker, member.assignment)
    try:
        named = read_assignment(member.assignment).partitions
    except MalformedProtocol:
        return []  # a group of another protocol type, such as Kafka Connect's
    return [topic_partition(topic, n) for topic, numbers in named.items() for n in numbers]


def partitions_named(broker: Node, partitions: Assignment) -> list[TopicPartition]:
    topics = broker.image.topics_by_id
    return [
        topic_partition(topics[topic_id].name, number)
        for topic_id, numbers in partitions.items()
        if topic_id in topics
        for number in numbers
    ]


def _show_member(
    member: DescribedMember | DescribedConsumerMember, held: Sequence[TopicPartition]
) -> GroupMember:
    if isinstance(member, DescribedConsumerMember):
        return GroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client.client_id,
            host=member.client.host,
            topics=list(member.subscribed_topics),
            topic_regex=member.subscribed_regex or None,
            epoch=member.member_epoch,
            assignment=show_partitions(held),
        )
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client.client_id,
        host=member.client.host,
        topics=_subscribed(member.metadata),
        topic_regex=None,
        epoch=None,
        assignment=show_partitions(held),
    )


def _subscribed(metadata: bytes) -> list[str]:
    try:
        return list(read_subscription(metadata).topics)
    except MalformedProtocol:
        return []
