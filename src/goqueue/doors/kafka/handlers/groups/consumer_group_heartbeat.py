"""ConsumerGroupHeartbeat: join, stay in and leave a group of the new protocol (KIP-848)."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.heartbeat_answers import heartbeat_answer, heartbeat_failure
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.assignment import assignment
from goqueue.model.groups.messages import ConsumerGroupHeartbeat
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

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
        result = await context.service.groups.consumer_heartbeat(context.caller, beat)
    except GoQueueError as error:
        return heartbeat_failure(error, request.member_id, request.member_epoch)
    return heartbeat_answer(result)


OPERATION = Operation(
    api_key=68,
    name="ConsumerGroupHeartbeat",
    min_version=0,
    max_version=1,
    handle=handle,
    starts_at_once=True,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.DESCRIBE, names="subscribed_topic_names"),
    ),
)
