"""A group as people look at it, put together from what coordinator and partitions know."""

from collections.abc import Sequence
from typing import Protocol

from goqueue.broker.groups.groups import Groups
from goqueue.broker.partitions.partition import Partition
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    read_subscription,
)
from goqueue.model.groups.messages import (
    NO_OFFSET,
    DescribedConsumerMember,
    DescribedMember,
    FetchedOffset,
    GroupKind,
    NamedConsumerGroup,
    OffsetFetch,
)
from goqueue.model.groups.overview import GroupOverview, GroupPosition, MemberOverview
from goqueue.model.groups.refusals import check
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import DescribableGroup


class FindPartition(Protocol):
    def __call__(self, topic: str, index: int, /) -> Partition: ...


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
    return GroupOverview(
        group_id=group,
        kind=GroupKind.CLASSIC,
        state=found.state,
        assignor=found.protocol_name,
        members=tuple(_classic_member(each) for each in found.members),
    )


async def positions(
    groups: Groups, find: FindPartition, seen: GroupOverview, group: DescribableGroup
) -> list[GroupPosition]:
    """All partitions that have an offset or an owner, in order."""
    fetched = await groups.fetch_offsets(group, OffsetFetch(group_id=group))
    check(fetched.error)
    offsets = {topic_partition(each.topic, each.partition): each for each in fetched.offsets}
    owners = seen.owners
    return [
        _position(find, place, offsets.get(place), owners.get(place))
        for place in sorted(offsets.keys() | owners.keys())
    ]


def _position(
    find: FindPartition, place: TopicPartition, found: FetchedOffset | None, owner: str | None
) -> GroupPosition:
    start = end = None
    try:
        partition = find(*place)
        start, end = partition.log_start_offset, partition.high_watermark
    except GoQueueError:
        pass  # deleted or led by another broker: the offset is still worth showing
    return GroupPosition(
        place=place,
        committed_offset=None if found is None or found.offset == NO_OFFSET else found.offset,
        metadata="" if found is None else found.metadata,
        log_start_offset=start,
        high_watermark=end,
        member_id=owner,
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
