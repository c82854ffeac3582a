"""StreamsGroupDescribe: topology, members, epochs and tasks of streams groups (KIP-1071)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from goqueue.doors.kafka.group_descriptions import described_groups
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.streams_tasks import role_rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
)
from goqueue.model.groups.topology import ApplicationTopic
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest


async def handle(context: RequestContext, request: "StreamsGroupDescribeRequest") -> Message:
    return await described_groups(
        context,
        request,
        describe=context.service.streams_groups.describe,
        unknown=lambda group_id: DescribedStreamsGroup(group_id=group_id),
        of_its_kind=_of_its_kind,
    )


def _of_its_kind(group: DescribedStreamsGroup) -> Message:
    return {
        "topology": _topology(group),
        "members": [_member(member) for member in group.members],
    }


def _topology(group: DescribedStreamsGroup) -> Message | None:
    if group.topology_epoch < 0:
        return None
    found = group.subtopologies
    return {
        "epoch": group.topology_epoch,
        "subtopologies": None if found is None else [_subtopology(each) for each in found],
    }


def _subtopology(found: DescribedSubtopology) -> Message:
    return {
        "subtopology_id": found.subtopology_id,
        "source_topics": found.source_topics,
        "repartition_sink_topics": found.sink_topics,
        "state_changelog_topics": _topics(found.changelog_topics),
        "repartition_source_topics": _topics(found.repartition_topics),
    }


def _topics(found: Iterable[ApplicationTopic]) -> list[Message]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_configs": [{"key": key, "value": value} for key, value in topic.config],
        }
        for topic in found
    ]


def _member(member: DescribedStreamsMember) -> Message:
    endpoint = member.endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "instance_id": None,
        "rack_id": member.rack_id,
        "client_id": member.client.client_id,
        "client_host": member.client.host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": (
            None if endpoint is None else {"host": endpoint.host, "port": endpoint.port}
        ),
        "client_tags": [{"key": key, "value": value} for key, value in member.tags],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": role_rows(member.tasks),
        "target_assignment": role_rows(member.target),
        "is_classic": False,
    }


OPERATION = Operation(
    api_key=89,
    name="StreamsGroupDescribe",
    min_version=0,
    max_version=0,
    handle=handle,
    names_resources=True,
    needs=(
        Need(Resource.GROUP, Verb.DESCRIBE, names="group_ids", refused=Refused.EACH),
        # Of what the topology reads and writes.
        Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.EACH),
    ),
    only_reads=True,
)
