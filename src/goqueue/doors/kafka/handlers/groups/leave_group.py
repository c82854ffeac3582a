"""LeaveGroup: one or many members of a classic group go."""

from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import LeaveGroup, LeavingMember
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.leave_group.v5.request import LeaveGroupRequest

_FIRST_VERSION_WITH_MANY_MEMBERS: Final = 3


async def handle(context: RequestContext, request: "LeaveGroupRequest") -> Message:
    if context.version >= _FIRST_VERSION_WITH_MANY_MEMBERS:
        members = tuple(
            LeavingMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                reason=member.reason,
            )
            for member in request.members
        )
    else:
        members = (LeavingMember(member_id=getattr(request, "member_id", "")),)
    try:
        leave = LeaveGroup(group_id=request.group_id, members=members)
        result = await context.service.groups.leave(context.caller, leave)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "members": ()}
    refusal = result.error
    if context.version < _FIRST_VERSION_WITH_MANY_MEMBERS and refusal is GroupError.NONE:
        # Older versions speak of one member, whose error is the answer's.
        refusal = next((left.error for left in result.members), GroupError.NONE)
    return {
        "error_code": group_code(refusal),
        "members": [
            {
                "member_id": left.member_id,
                "group_instance_id": left.group_instance_id,
                "error_code": group_code(left.error),
            }
            for left in result.members
        ],
    }


OPERATION = Operation(
    api_key=13,
    name="LeaveGroup",
    min_version=0,
    max_version=5,
    handle=handle,
    needs=(Need(Resource.GROUP, Verb.READ, names="group_id"),),
)
