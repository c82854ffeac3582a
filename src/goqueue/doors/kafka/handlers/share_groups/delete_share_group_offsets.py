"""DeleteShareGroupOffsets: forget what a share group without members did in some topics."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.share import ShareTopicOffsets
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest


async def handle(context: RequestContext, request: "DeleteShareGroupOffsetsRequest") -> Message:
    names = [topic.topic_name for topic in request.topics]
    shares = context.service.share_groups
    try:
        deleted = await shares.delete_offsets(context.caller, request.group_id, names)
    except GoQueueError as error:
        code = failure_code(error)
        return {"error_code": code, "error_message": error.message, "responses": []}
    return {
        "error_code": group_code(deleted.error),
        "error_message": deleted.error_message or None,
        "responses": [_topic(topic) for topic in deleted.topics],
    }


def _topic(deleted: ShareTopicOffsets) -> Message:
    error = deleted.error
    return {
        "topic_name": deleted.name,
        "topic_id": deleted.topic_id,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
    }


OPERATION = Operation(
    api_key=92,
    name="DeleteShareGroupOffsets",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.DELETE, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.topic_name", refused=Refused.EACH),
    ),
)
