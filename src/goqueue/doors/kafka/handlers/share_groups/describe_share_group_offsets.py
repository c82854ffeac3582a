"""DescribeShareGroupOffsets: how far share groups are; below, all is acknowledged."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.share import ShareOffset
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_share_group_offsets.v1.request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )


async def handle(context: RequestContext, request: "DescribeShareGroupOffsetsRequest") -> Message:
    return {"groups": [await _group(context, group) async for group in in_slices(request.groups)]}


async def _group(
    context: RequestContext, asked: "DescribeShareGroupOffsetsRequestGroup"
) -> Message:
    topics = asked.topics
    wanted = None if topics is None else [(each.topic_name, each.partitions) for each in topics]
    shares = context.service.share_groups
    try:
        found = await shares.describe_offsets(context.caller, asked.group_id, wanted)
    except GoQueueError as error:
        return {
            "group_id": asked.group_id,
            "topics": [],
            "error_code": failure_code(error),
            "error_message": error.message,
        }
    return {
        "group_id": asked.group_id,
        "topics": [
            {
                "topic_name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [_partition(part) for part in topic.partitions],
            }
            for topic in found.topics
        ],
        "error_code": group_code(found.error),
        "error_message": found.error_message or None,
    }


def _partition(found: ShareOffset) -> Message:
    error = found.error
    return {
        "partition_index": found.index,
        "start_offset": found.start_offset,
        "leader_epoch": found.leader_epoch,
        "lag": found.lag,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
    }


OPERATION = Operation(
    api_key=90,
    name="DescribeShareGroupOffsets",
    min_version=0,
    max_version=1,
    handle=handle,
    names_resources=True,
    needs=(
        Need(Resource.GROUP, Verb.DESCRIBE, names="groups.group_id", refused=Refused.EACH),
        Need(Resource.TOPIC, Verb.DESCRIBE, names="groups.topics.topic_name", refused=Refused.EACH),
    ),
    only_reads=True,
)
