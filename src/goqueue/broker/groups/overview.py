"""A group as people look at it, put together from what its coordinator knows."""

from collections.abc import Sequence

from goqueue.broker.groups.groups import Groups
from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    read_subscription,
)
from goqueue.model.groups.messages import (
    DescribedConsumerMember,
    DescribedMember,
    GroupKind,
    NamedConsumerGroup,
)
from goqueue.model.groups.overview import GroupOverview, MemberOverview
from goqueue.model.groups.streams_messages import (
    STREAMS_ASSIGNOR,
    DescribedStreamsGroup,
    DescribedStreamsMember,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import DescribableGroup


async def overview(groups: Groups, group: DescribableGroup) -> GroupOverview:
    """Raises `GroupRefused` if there is no such group."""
    found = await groups.find(group)
    if isinstance(found, NamedConsumerGroup):
        return GroupOverview(
            group_id=group,
            kind=GroupKind.CONSUMER,
            state=found.state,
            assignor=found.assignor,
            members=tuple(_consumer_member(each, found) for each in found.members),
        )
    if isinstance(found, DescribedStreamsGroup):
        return GroupOverview(
            group_id=group,
            kind=GroupKind.STREAMS,
            state=found.state,
            assignor=STREAMS_ASSIGNOR,
            members=tuple(_streams_member(each, found) for each in found.members),
        )
    return GroupOverview(
        group_id=group,
        kind=GroupKind.CLASSIC,
        state=found.state,
        assignor=found.protocol_name,
        members=tuple(_classic_member(each) for each in found.members),
    )


def _consumer_member(member: DescribedConsumerMember, group: NamedConsumerGroup) -> MemberOverview:
    return MemberOverview(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client=member.client,
        topics=member.subscribed_topics,
        topic_regex=member.subscribed_regex or None,
        epoch=member.member_epoch,
        held=tuple(group.named(member.assignment)),
    )


def _streams_member(member: DescribedStreamsMember, group: DescribedStreamsGroup) -> MemberOverview:
    """What its active tasks read; standbys read changelogs, which have no offsets of the group."""
    return MemberOverview(
        member_id=member.member_id,
        instance_id=None,
        client=member.client,
        topics=group.source_topics,
        topic_regex=None,
        epoch=member.member_epoch,
        held=tuple(member.held),
    )


def _classic_member(member: DescribedMember) -> MemberOverview:
    return MemberOverview(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client=member.client,
        topics=tuple(_subscribed(member.metadata)),
        topic_regex=None,
        epoch=None,
        held=tuple(_assigned(member.assignment)),
    )


def _subscribed(metadata: bytes) -> Sequence[str]:
    try:
        return read_subscription(metadata).topics
    except MalformedProtocol:
        return ()  # a group of another protocol type, such as Kafka Connect's


def _assigned(assignment: bytes) -> list[TopicPartition]:
    try:
        named = read_assignment(assignment).partitions
    except MalformedProtocol:
        return []
    return [topic_partition(topic, n) for topic, numbers in named.items() for n in numbers]
