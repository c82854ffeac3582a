"""OffsetDelete: forget where a group is in some partitions."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import OffsetDelete

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest


async def handle(context: RequestContext, request: "OffsetDeleteRequest") -> Message:
    image = context.broker.image
    asked = {
        topic.name: [part.partition_index for part in topic.partitions] for topic in request.topics
    }
    known: dict[str, list[int]] = {
        name: [index for index in indexes if 0 <= index < len(image.topics[name].partitions)]
        for name, indexes in asked.items()
        if name in image.topics
    }
    try:
        delete = OffsetDelete(group_id=request.group_id, topics=known)
        result = await context.broker.groups.delete_offsets(delete)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "topics": ()}
    code = group_code(result.error)
    if code is not ErrorCode.none:
        return {"error_code": code, "topics": ()}
    codes = {(part.topic, part.partition): group_code(part.error) for part in result.partitions}
    unknown = ErrorCode.unknown_topic_or_partition
    return {
        "error_code": code,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "error_code": codes.get((name, index), unknown)}
                    for index in indexes
                ],
            }
            for name, indexes in asked.items()
        ],
    }


OPERATION = Operation(api_key=47, name="OffsetDelete", min_version=0, max_version=0, handle=handle)
