"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932)."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.heartbeat_answers import heartbeat_answer, heartbeat_failure
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

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
        result = await context.service.share_groups.heartbeat(context.caller, beat)
    except GoQueueError as error:
        return heartbeat_failure(error, request.member_id, request.member_epoch)
    return heartbeat_answer(result)


OPERATION = Operation(
    api_key=76,
    name="ShareGroupHeartbeat",
    min_version=1,
    max_version=1,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.DESCRIBE, names="subscribed_topic_names"),
    ),
)
