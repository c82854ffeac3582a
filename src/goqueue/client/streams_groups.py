"""Streams groups (KIP-1071) as they can be asked about."""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeResponse,
)
from kio.schema.types import GroupId

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import GroupFacts, MemberFacts, PartitionKey

_ASSIGNOR = "sticky"


async def describe_streams(admin: KafkaAdmin, group: str) -> GroupFacts | None:
    """None if there is no such group. Members have the partitions that their active tasks read."""
    coordinator = await admin.coordinator(group)
    asked = StreamsGroupDescribeRequest(
        group_ids=(GroupId(group),), include_authorized_operations=False
    )
    response = await coordinator.call(asked, StreamsGroupDescribeResponse)
    found = response.groups[0]
    if found.error_code is ErrorCode.group_id_not_found:
        return None
    if found.error_code is not ErrorCode.none:
        reason = found.error_message or found.error_code.name
        raise RequestRefused(f"group {group!r}: {reason}", found.error_code.value)
    reads = await _reads(admin, found)
    return GroupFacts(
        group=group,
        type="streams",
        state=found.group_state,
        assignor=_ASSIGNOR,
        members=tuple(
            MemberFacts(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                partitions=tuple(_partitions(member, reads)),
            )
            for member in found.members
        ),
    )


async def _reads(admin: KafkaAdmin, group: DescribedGroup) -> Mapping[str, Mapping[str, int]]:
    """Topics that each subtopology reads, with their numbers of partitions."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    topics = {
        each.subtopology_id: (
            *map(str, each.source_topics),
            *(str(topic.name) for topic in each.repartition_source_topics),
        )
        for each in subtopologies
    }
    known = set(await admin.topic_names())
    names = sorted({name for read in topics.values() for name in read} & known)
    facts = await admin.describe_topics(names, with_sizes=False) if names else []
    counts = {topic.name: len(topic.partitions) for topic in facts}
    return {
        subtopology: {name: counts.get(name, 0) for name in read}
        for subtopology, read in topics.items()
    }


def _partitions(member: Member, reads: Mapping[str, Mapping[str, int]]) -> list[PartitionKey]:
    return [
        (topic, int(partition))
        for tasks in member.assignment.active_tasks
        for topic, count in reads.get(tasks.subtopology_id, {}).items()
        for partition in tasks.partitions
        if partition < count
    ]
