"""AlterShareGroupOffsets: let a share group without members begin anew somewhere else."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.share import NewShareOffset, ShareOffset
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.alter_share_group_offsets.v0.request import AlterShareGroupOffsetsRequest


async def handle(context: RequestContext, request: "AlterShareGroupOffsetsRequest") -> Message:
    wanted = [
        (
            topic.topic_name,
            [NewShareOffset(part.partition_index, part.start_offset) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    shares = context.service.share_groups
    try:
        altered = await shares.alter_offsets(context.caller, request.group_id, wanted)
    except GoQueueError as error:
        code = failure_code(error)
        return {"error_code": code, "error_message": error.message, "responses": []}
    return {
        "error_code": group_code(altered.error),
        "error_message": altered.error_message or None,
        "responses": [
            {
                "topic_name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [_partition(part) for part in topic.partitions],
            }
            for topic in altered.topics
        ],
    }


def _partition(altered: ShareOffset) -> Message:
    error = altered.error
    return {
        "partition_index": altered.index,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
    }


OPERATION = Operation(
    api_key=91,
    name="AlterShareGroupOffsets",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.topic_name", refused=Refused.EACH),
    ),
)
