"""Heartbeat: a member of a classic group is alive, and learns of a rebalance."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import Heartbeat
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest


async def handle(context: RequestContext, request: "HeartbeatRequest") -> Message:
    beat = Heartbeat(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    try:
        result = await context.service.groups.heartbeat(context.caller, beat)
    except GoQueueError as error:
        return {"error_code": failure_code(error)}
    return {"error_code": group_code(result.error)}


OPERATION = Operation(
    api_key=12,
    name="Heartbeat",
    min_version=0,
    max_version=4,
    handle=handle,
    starts_at_once=True,
    needs=(Need(Resource.GROUP, Verb.READ, names="group_id"),),
)
