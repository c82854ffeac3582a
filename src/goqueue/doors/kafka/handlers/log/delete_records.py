"""DeleteRecords: moves the start of partitions forward."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, PolicyViolation
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest


async def handle(context: RequestContext, request: "DeleteRecordsRequest") -> Message:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _deleted(context, topic.name, part.partition_index, part.offset)
                    async for part in in_slices(topic.partitions)
                ],
            }
            async for topic in in_slices(request.topics)
        ]
    }


async def _deleted(context: RequestContext, topic: str, index: int, before_offset: int) -> Message:
    try:
        start_offset = await context.service.log.delete_records(
            context.caller, topic, index, before_offset
        )
    except PolicyViolation:
        # Kafka's name for a topic that only the broker writes.
        code = ErrorCode.invalid_topic_exception
        return {"partition_index": index, "low_watermark": -1, "error_code": code}
    except GoQueueError as error:
        return {"partition_index": index, "low_watermark": -1, "error_code": error_code(error)}
    return {
        "partition_index": index,
        "low_watermark": start_offset,
        "error_code": ErrorCode.none,
    }


OPERATION = Operation(
    api_key=21,
    name="DeleteRecords",
    min_version=0,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.TOPIC, Verb.DELETE, names="topics.name", refused=Refused.EACH),),
)
