"""ListOffsets: the offset at a time, or at either end of a partition."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.handlers.log.fetch import isolation_level
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.log import Isolation, ListedOffset
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest

# Special "times", and the version that brought them (KIP-734, 405, 1005, 1023).
_FIRST_VERSIONS: Final[Mapping[int, int]] = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
_NOT_FOUND: Final = ListedOffset(-1, -1, -1)


async def handle(context: RequestContext, request: "ListOffsetsRequest") -> Message:
    isolation = isolation_level(request.isolation_level)
    seen = Counter((t.name, part.partition_index) for t in request.topics for part in t.partitions)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _listed(context, topic.name, part, isolation)
                    if seen[topic.name, part.partition_index] == 1
                    else _answer(part.partition_index, _NOT_FOUND, ErrorCode.invalid_request)
                    async for part in in_slices(topic.partitions)
                ],
            }
            async for topic in in_slices(request.topics)
        ]
    }


async def _listed(
    context: RequestContext, topic: str, part: "ListOffsetsPartition", isolation: Isolation
) -> Message:
    index, timestamp = part.partition_index, part.timestamp
    if timestamp < 0 and context.version < _FIRST_VERSIONS.get(timestamp, context.version + 1):
        return _answer(index, _NOT_FOUND, ErrorCode.unsupported_version)
    try:
        listed = await context.service.log.list_offset(
            context.caller,
            topic,
            index,
            timestamp,
            isolation=isolation,
            leader_epoch=part.current_leader_epoch,
        )
    except GoQueueError as error:
        return _answer(index, _NOT_FOUND, error_code(error))
    return _answer(index, listed, ErrorCode.none)


def _answer(index: int, listed: ListedOffset, code: ErrorCode) -> Message:
    return {
        "partition_index": index,
        "error_code": code,
        "timestamp": listed.timestamp_ms,
        "offset": listed.offset,
        "leader_epoch": listed.leader_epoch,
    }


OPERATION = Operation(
    api_key=2,
    name="ListOffsets",
    min_version=1,
    max_version=11,
    handle=handle,
    needs=(Need(Resource.TOPIC, Verb.DESCRIBE, names="topics.name", refused=Refused.EACH),),
    only_reads=True,
)
