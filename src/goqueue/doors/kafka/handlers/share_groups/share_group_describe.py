"""ShareGroupDescribe: members, epochs and assignments of share groups."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.group_descriptions import assignment_of, described_groups
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.groups.share_messages import (
    SHARE_ASSIGNOR,
    DescribedShareGroup,
    DescribedShareMember,
)
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest


async def handle(context: RequestContext, request: "ShareGroupDescribeRequest") -> Message:
    def of_its_kind(group: DescribedShareGroup) -> Message:
        return {
            "assignor_name": SHARE_ASSIGNOR,
            "members": [_member(context, member) for member in group.members],
        }

    return await described_groups(
        context,
        request,
        describe=context.service.share_groups.describe,
        unknown=lambda group_id: DescribedShareGroup(group_id=group_id),
        of_its_kind=of_its_kind,
    )


def _member(context: RequestContext, member: DescribedShareMember) -> Message:
    names = context.service.share_groups.topic_names(context.caller, member.assignment)
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client.client_id,
        "client_host": member.client.host,
        "subscribed_topic_names": member.subscribed_topics,
        "assignment": assignment_of(member.assignment, names),
    }


OPERATION = Operation(
    api_key=77,
    name="ShareGroupDescribe",
    min_version=1,
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
