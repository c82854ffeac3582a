"""DeleteShareGroupState (KIP-932): a coordinator has a leader forget what a share group did."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.delete_share_group_state.v0.request import (
        DeleteShareGroupStateRequest,
        DeleteStateData,
    )


async def handle(context: RequestContext, request: "DeleteShareGroupStateRequest") -> Message:
    return {
        "results": [
            await _deleted(context, request.group_id, topic)
            async for topic in in_slices(request.topics)
        ]
    }


async def _deleted(context: RequestContext, group_id: str, topic: "DeleteStateData") -> Message:
    indexes = [part.partition for part in topic.partitions]
    code, message = ErrorCode.none, None
    try:
        await context.service.share_groups.delete_state(
            context.caller, group_id, topic.topic_id, indexes
        )
    except GoQueueError as error:
        code, message = error_code(error), error.message
    return {
        "topic_id": topic.topic_id,
        "partitions": [
            {"partition": index, "error_code": code, "error_message": message} for index in indexes
        ],
    }


OPERATION = Operation(
    api_key=86,
    name="DeleteShareGroupState",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.CLUSTER_ACTION, refused=Refused.EACH),),
)
