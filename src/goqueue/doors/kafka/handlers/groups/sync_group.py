"""SyncGroup: the leader brings the assignment of a classic group, all members fetch theirs."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import SyncGroup
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.sync_group.v5.request import SyncGroupRequest


async def handle(context: RequestContext, request: "SyncGroupRequest") -> Message:
    sync = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={given.member_id: bytes(given.assignment) for given in request.assignments},
    )
    try:
        result = await context.service.groups.sync(context.caller, sync)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "assignment": b""}
    return {
        "error_code": group_code(result.error),
        "protocol_type": result.protocol_type,
        "protocol_name": result.protocol_name,
        "assignment": result.assignment,
    }


OPERATION = Operation(
    api_key=14,
    name="SyncGroup",
    min_version=0,
    max_version=5,
    handle=handle,
    waits=True,
    needs=(Need(Resource.GROUP, Verb.READ, names="group_id"),),
)
