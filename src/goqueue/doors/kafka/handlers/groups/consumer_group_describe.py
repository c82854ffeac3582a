"""ConsumerGroupDescribe: members, epochs and assignments of groups of the new protocol."""

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.group_descriptions import described_groups
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import DescribedConsumerMember, NamedConsumerGroup
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

# Kafka's member types.
_CLASSIC: Final = 0
_CONSUMER: Final = 1


async def handle(context: RequestContext, request: "ConsumerGroupDescribeRequest") -> Message:
    return await described_groups(context, request, _described)


async def _described(context: RequestContext, group_id: str) -> Message:
    try:
        group = await context.service.groups.describe_consumer(context.caller, group_id)
        code, message = group_code(group.error), group.error_message
    except GoQueueError as error:
        group = NamedConsumerGroup(group_id=group_id)
        code, message = failure_code(error), error.message
    return {
        "error_code": code,
        "error_message": message or None,
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [_member(group, member) for member in group.members],
    }


def _member(group: NamedConsumerGroup, member: DescribedConsumerMember) -> Message:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client.client_id,
        "client_host": member.client.host,
        "subscribed_topic_names": member.subscribed_topics,
        "subscribed_topic_regex": member.subscribed_regex or None,
        "assignment": _assignment(group, member.assignment),
        "target_assignment": _assignment(group, member.target),
        "member_type": _CLASSIC if member.uses_classic_protocol else _CONSUMER,
    }


def _assignment(group: NamedConsumerGroup, partitions: Mapping[UUID, Set[int]]) -> Message:
    names = group.topic_names
    return {
        "topic_partitions": [
            {
                "topic_id": topic_id,
                "topic_name": names[topic_id],
                "partitions": sorted(indexes),
            }
            for topic_id, indexes in partitions.items()
            if topic_id in names
        ]
    }


OPERATION = Operation(
    api_key=69,
    name="ConsumerGroupDescribe",
    min_version=0,
    max_version=1,
    handle=handle,
    names_resources=True,
    needs=(
        Need(Resource.GROUP, Verb.DESCRIBE, names="group_ids", refused=Refused.EACH),
        # Of what the members have subscribed to and been assigned.
        Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.EACH),
    ),
    only_reads=True,
)
