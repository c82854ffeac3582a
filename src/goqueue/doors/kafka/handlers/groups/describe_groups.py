"""DescribeGroups: members and state of classic groups."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.authorized_operations import NOT_ASKED_FOR, operations_on
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import DescribedGroup
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

# Older versions show a missing group as dead, without an error (KIP-1043).
_FIRST_VERSION_WITH_NOT_FOUND: Final = 6


async def handle(context: RequestContext, request: "DescribeGroupsRequest") -> Message:
    return {
        "groups": [
            {
                **await _described(context, group_id),
                "authorized_operations": (
                    operations_on(context, Resource.GROUP, group_id)
                    if request.include_authorized_operations
                    else NOT_ASKED_FOR
                ),
            }
            async for group_id in in_slices(dict.fromkeys(request.groups))
        ]
    }


async def _described(context: RequestContext, group_id: str) -> Message:
    try:
        group = await context.service.groups.describe(context.caller, group_id)
        code = group_code(group.error)
    except GoQueueError as error:
        group, code = DescribedGroup(group_id=group_id, state=""), failure_code(error)
    message = None
    if group.error is GroupError.GROUP_ID_NOT_FOUND:
        if context.version < _FIRST_VERSION_WITH_NOT_FOUND:
            code = ErrorCode.none
        else:
            message = f"there is no classic group {group_id!r}"
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client.client_id,
                "client_host": member.client.host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }


OPERATION = Operation(
    api_key=15,
    name="DescribeGroups",
    min_version=0,
    max_version=6,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.GROUP, Verb.DESCRIBE, names="groups", refused=Refused.EACH),),
    only_reads=True,
)
