"""ListGroups: all groups, by state and type."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import ListGroups
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.list_groups.v5.request import ListGroupsRequest


async def handle(context: RequestContext, request: "ListGroupsRequest") -> Message:
    wanted = ListGroups(
        states=frozenset(request.states_filter), kinds=frozenset(request.types_filter)
    )
    try:
        groups = await context.service.groups.list(context.caller, wanted)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "groups": ()}
    return {
        "error_code": ErrorCode.none,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.kind.value,
            }
            for group in groups
        ],
    }


OPERATION = Operation(
    api_key=16,
    name="ListGroups",
    min_version=0,
    max_version=5,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.GROUP, Verb.DESCRIBE, refused=Refused.LEFT_OUT, or_cluster=True),),
    only_reads=True,
)
