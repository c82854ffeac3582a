"""DeleteShareGroupOffsets: forget what a share group without members did in some topics."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest


async def handle(context: RequestContext, request: "DeleteShareGroupOffsetsRequest") -> Message:
    try:
        opened = await context.broker.share_groups.check_empty(request.group_id, may_make=False)
        code, message = group_code(opened.error), opened.error_message
    except GoQueueError as error:
        code, message = failure_code(error), error.message
    topics: list[Message] = []
    if code is ErrorCode.none:
        topics = [
            await _topic(context, request.group_id, topic.topic_name) for topic in request.topics
        ]
    return {"error_code": code, "error_message": message or None, "responses": topics}


async def _topic(context: RequestContext, group_id: str, name: str) -> Message:
    view = context.broker.image.topics.get(name)
    answer = {"topic_name": name, "topic_id": None if view is None else view.id}
    try:
        await context.broker.share_groups.delete_offsets(group_id, name)
    except GoQueueError as error:
        return {**answer, "error_code": error_code(error), "error_message": error.message}
    return {**answer, "error_code": ErrorCode.none, "error_message": None}


OPERATION = Operation(
    api_key=92, name="DeleteShareGroupOffsets", min_version=0, max_version=0, handle=handle
)
