"""ConsumerGroupDescribe: members, epochs and assignments of groups of the new protocol."""

from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.group_descriptions import assignment_of, described_groups
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.groups.messages import DescribedConsumerMember, NamedConsumerGroup
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

# Kafka's member types.
_CLASSIC: Final = 0
_CONSUMER: Final = 1


async def handle(context: RequestContext, request: "ConsumerGroupDescribeRequest") -> Message:
    return await described_groups(
        context,
        request,
        describe=context.service.groups.describe_consumer,
        unknown=lambda group_id: NamedConsumerGroup(group_id=group_id),
        of_its_kind=_of_its_kind,
    )


def _of_its_kind(group: NamedConsumerGroup) -> Message:
    return {
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
        "assignment": assignment_of(member.assignment, group.topic_names),
        "target_assignment": assignment_of(member.target, group.topic_names),
        "member_type": _CLASSIC if member.uses_classic_protocol else _CONSUMER,
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
