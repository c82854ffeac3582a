"""OffsetDelete: forget where a group is in some partitions."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import OffsetDelete
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest


async def handle(context: RequestContext, request: "OffsetDeleteRequest") -> Message:
    asked: dict[str, list[int]] = {
        topic.name: [part.partition_index for part in topic.partitions] for topic in request.topics
    }
    try:
        delete = OffsetDelete(group_id=request.group_id, topics=asked)
        result = await context.service.groups.delete_offsets(context.caller, delete)
    except GoQueueError as error:
        return {"error_code": failure_code(error), "topics": ()}
    code = group_code(result.error)
    if code is not ErrorCode.none:
        return {"error_code": code, "topics": ()}
    codes = {(part.topic, part.partition): group_code(part.error) for part in result.partitions}
    return {
        "error_code": code,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "error_code": codes[name, index]}
                    for index in indexes
                ],
            }
            for name, indexes in asked.items()
        ],
    }


OPERATION = Operation(
    api_key=47,
    name="OffsetDelete",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.DELETE, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.name", refused=Refused.EACH),
    ),
)
