"""OffsetForLeaderEpoch (KIP-101, KIP-320): where the records of a leader's epoch end."""

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
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


async def handle(context: RequestContext, request: "OffsetForLeaderEpochRequest") -> Message:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    _end(context, topic.topic, part) async for part in in_slices(topic.partitions)
                ],
            }
            async for topic in in_slices(request.topics)
        ]
    }


def _end(context: RequestContext, topic: str, part: "OffsetForLeaderPartition") -> Message:
    try:
        epoch, end_offset = context.service.log.offset_for_leader_epoch(
            context.caller,
            topic,
            part.partition,
            part.leader_epoch,
            current_epoch=part.current_leader_epoch,
        )
    except GoQueueError as error:
        return {"partition": part.partition, "error_code": error_code(error)}
    return {
        "partition": part.partition,
        "error_code": ErrorCode.none,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }


OPERATION = Operation(
    api_key=23,
    name="OffsetForLeaderEpoch",
    min_version=2,
    max_version=4,
    handle=handle,
    needs=(Need(Resource.TOPIC, Verb.DESCRIBE, names="topics.topic", refused=Refused.EACH),),
    only_reads=True,
)
