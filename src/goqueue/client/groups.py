"""Administration of groups and their offsets."""

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v9.response import OffsetCommitResponse
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v9.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import (
    CommittedFacts,
    GroupFacts,
    GroupListing,
    MemberFacts,
    PartitionKey,
)
from goqueue.client.streams_groups import describe_streams
from goqueue.model.groups.consumer_protocol import MalformedProtocol, read_assignment

# The state in which the classic protocol reports a group that is not there.
_DEAD: Final = "Dead"


class GroupAdmin:
    """Works through the connections of a `KafkaAdmin`."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    async def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        found: list[GroupListing] = []
        for broker in await self._admin.brokers():
            response = await broker.call(request, ListGroupsResponse)
            _check(response.error_code, "groups")
            found += [
                GroupListing(
                    group=str(each.group_id),
                    type=each.group_type.lower(),
                    state=each.group_state,
                    protocol_type=each.protocol_type,
                )
                for each in response.groups
            ]
        return sorted(found, key=lambda each: each.group)

    async def describe(self, group: str) -> GroupFacts | None:
        """A group of a protocol with offsets; None if there is none."""
        coordinator = await self._admin.coordinator(group)
        asked = ConsumerGroupDescribeRequest(
            group_ids=(GroupId(group),), include_authorized_operations=False
        )
        response = await coordinator.call(asked, ConsumerGroupDescribeResponse)
        consumer = response.groups[0]
        if consumer.error_code is not ErrorCode.group_id_not_found:
            _check(consumer.error_code, group, consumer.error_message)
            return GroupFacts(
                group=group,
                type="consumer",
                state=consumer.group_state,
                assignor=consumer.assignor_name,
                members=tuple(
                    MemberFacts(
                        member_id=member.member_id,
                        instance_id=member.instance_id,
                        client_id=member.client_id,
                        host=member.client_host,
                        partitions=tuple(
                            (str(topic.topic_name), int(partition))
                            for topic in member.assignment.topic_partitions
                            for partition in topic.partitions
                        ),
                    )
                    for member in consumer.members
                ),
            )
        classic = await self._describe_classic(group)
        return await describe_streams(self._admin, group) if classic is None else classic

    async def _describe_classic(self, group: str) -> GroupFacts | None:
        coordinator = await self._admin.coordinator(group)
        response = await coordinator.call(
            DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=False),
            DescribeGroupsResponse,
        )
        classic = response.groups[0]
        if classic.error_code is ErrorCode.group_id_not_found or classic.group_state == _DEAD:
            return None
        _check(classic.error_code, group)
        return GroupFacts(
            group=group,
            type="classic",
            state=classic.group_state,
            assignor=classic.protocol_data,
            members=tuple(
                MemberFacts(
                    member_id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    partitions=_embedded(bytes(member.member_assignment)),
                )
                for member in classic.members
            ),
        )

    async def delete_group(self, group: str) -> None:
        coordinator = await self._admin.coordinator(group)
        response = await coordinator.call(
            DeleteGroupsRequest(groups_names=(GroupId(group),)), DeleteGroupsResponse
        )
        _check(response.results[0].error_code, group)

    async def offsets(self, group: str) -> dict[PartitionKey, CommittedFacts]:
        coordinator = await self._admin.coordinator(group)
        wanted = OffsetFetchRequestGroup(group_id=GroupId(group), topics=None)
        response = await coordinator.call(OffsetFetchRequest(groups=(wanted,)), OffsetFetchResponse)
        found = response.groups[0]
        _check(found.error_code, group)
        return {
            (str(topic.name), int(part.partition_index)): CommittedFacts(
                offset=int(part.committed_offset), metadata=part.metadata or ""
            )
            for topic in found.topics
            for part in topic.partitions
            if part.error_code is ErrorCode.none and part.committed_offset >= 0
        }

    async def commit(self, group: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Set offsets of a group without members."""
        coordinator = await self._admin.coordinator(group)
        response = await coordinator.call(commit_request(group, offsets), OffsetCommitResponse)
        check_commit(group, response)

    async def delete_offsets(self, group: str, places: Iterable[PartitionKey]) -> None:
        coordinator = await self._admin.coordinator(group)
        response = await coordinator.call(
            OffsetDeleteRequest(
                group_id=GroupId(group),
                topics=tuple(
                    OffsetDeleteRequestTopic(
                        name=TopicName(topic),
                        partitions=tuple(
                            OffsetDeleteRequestPartition(partition_index=i32(partition))
                            for partition in partitions
                        ),
                    )
                    for topic, partitions in _by_topic(places).items()
                ),
            ),
            OffsetDeleteResponse,
        )
        _check(response.error_code, group)
        for topic in response.topics:
            for part in topic.partitions:
                _check(part.error_code, group)


def commit_request(group: str, offsets: Mapping[PartitionKey, int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=i32(partition),
                        committed_offset=i64(offsets[topic, partition]),
                        committed_metadata="",
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in _by_topic(offsets).items()
        ),
    )


def check_commit(group: str, response: OffsetCommitResponse) -> None:
    for topic in response.topics:
        for part in topic.partitions:
            _check(part.error_code, group)


def _embedded(assignment: bytes) -> tuple[PartitionKey, ...]:
    try:
        partitions = read_assignment(assignment).partitions
    except MalformedProtocol:
        return ()  # a group of another protocol type, such as Kafka Connect's
    return tuple((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _by_topic(places: Iterable[PartitionKey]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found


def _check(code: ErrorCode, group: str, message: str | None = None) -> None:
    if code is ErrorCode.none:
        return
    has_members = f"group {group!r} has members; stop them first, then try again"
    plain = {
        ErrorCode.group_id_not_found: f"there is no group {group!r}; see `goqueue groups list`",
        ErrorCode.non_empty_group: has_members,
        # What a commit from outside gets while the group has members.
        ErrorCode.unknown_member_id: has_members,
        ErrorCode.rebalance_in_progress: has_members,
        ErrorCode.group_subscribed_to_topic: (
            f"a member of group {group!r} reads this topic; stop it first, then try again"
        ),
    }
    raise RequestRefused(
        plain.get(code) or message or f"group {group!r}: {code.name.replace('_', ' ')}", int(code)
    )
