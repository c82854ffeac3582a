"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932)."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.state.groups.share_messages import ShareGroupHeartbeat

if TYPE_CHECKING:
    from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest


async def handle(context: RequestContext, request: "ShareGroupHeartbeatRequest") -> Message:
    names = request.subscribed_topic_names
    beat = ShareGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed_topics=None if names is None else tuple(names),
        client=context.client,
    )
    try:
        result = await context.broker.share_groups.heartbeat(beat)
    except GoQueueError as error:
        return {
            "error_code": failure_code(error),
            "error_message": error.message,
            "member_id": request.member_id,
            "member_epoch": request.member_epoch,
            "heartbeat_interval": 0,
        }
    given = None
    if result.assignment is not None:
        given = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in result.assignment.items()
            ]
        }
    return {
        "error_code": group_code(result.error),
        "error_message": result.error_message or None,
        "member_id": result.member_id or None,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "assignment": given,
    }


OPERATION = Operation(
    api_key=76, name="ShareGroupHeartbeat", min_version=1, max_version=1, handle=handle
)
