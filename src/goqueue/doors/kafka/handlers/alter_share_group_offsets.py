"""AlterShareGroupOffsets: let a share group without members begin anew somewhere else."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from kio.schema.alter_share_group_offsets.v0.request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )


async def handle(context: RequestContext, request: "AlterShareGroupOffsetsRequest") -> Message:
    try:
        opened = await context.broker.share_groups.check_empty(request.group_id, may_make=True)
        code, message = group_code(opened.error), opened.error_message
    except GoQueueError as error:
        code, message = failure_code(error), error.message
    topics: list[Message] = []
    if code is ErrorCode.none:
        topics = [await _topic(context, request.group_id, topic) for topic in request.topics]
    return {"error_code": code, "error_message": message or None, "responses": topics}


async def _topic(
    context: RequestContext, group_id: str, topic: "AlterShareGroupOffsetsRequestTopic"
) -> Message:
    view = context.broker.image.topics.get(topic.topic_name)
    return {
        "topic_name": topic.topic_name,
        "topic_id": None if view is None else view.id,
        "partitions": [
            await _partition(
                context, group_id, topic.topic_name, part.partition_index, part.start_offset
            )
            for part in topic.partitions
        ],
    }


async def _partition(
    context: RequestContext, group_id: str, topic: str, index: int, offset: int
) -> Message:
    try:
        await context.broker.share_groups.alter_offset(group_id, topic, index, offset)
    except GoQueueError as error:
        code, message = error_code(error), error.message
        return {"partition_index": index, "error_code": code, "error_message": message}
    return {"partition_index": index, "error_code": ErrorCode.none, "error_message": None}


OPERATION = Operation(
    api_key=91, name="AlterShareGroupOffsets", min_version=0, max_version=0, handle=handle
)
