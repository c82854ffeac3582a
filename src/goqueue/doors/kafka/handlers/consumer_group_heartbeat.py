"""ConsumerGroupHeartbeat: join, stay in and leave a group of the new protocol (KIP-848)."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.state.groups.assignment import assignment
from goqueue.state.groups.messages import ConsumerGroupHeartbeat

if TYPE_CHECKING:
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest

_MILLISECOND: Final = timedelta(milliseconds=1)


async def handle(context: RequestContext, request: "ConsumerGroupHeartbeatRequest") -> Message:
    owned = None
    if request.topic_partitions is not None:
        owned = assignment(
            (topic.topic_id, topic.partitions)
            for topic in request.topic_partitions
            if topic.topic_id is not None
        )
    names = request.subscribed_topic_names
    beat = ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MILLISECOND,
        subscribed_topics=None if names is None else tuple(names),
        subscribed_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=owned,
        client=context.client,
        brings_member_id=context.version >= 1,
    )
    try:
        result = await context.broker.groups.consumer_heartbeat(beat)
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
    api_key=68, name="ConsumerGroupHeartbeat", min_version=0, max_version=1, handle=handle
)
