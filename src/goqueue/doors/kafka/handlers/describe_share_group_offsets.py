"""DescribeShareGroupOffsets: how far share groups are; below, all is acknowledged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import QueueDescription
from goqueue.model.topics import TopicView

if TYPE_CHECKING:
    from kio.schema.describe_share_group_offsets.v1.request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )


async def handle(context: RequestContext, request: "DescribeShareGroupOffsetsRequest") -> Message:
    return {"groups": [await _group(context, group) for group in request.groups]}


async def _group(
    context: RequestContext, asked: "DescribeShareGroupOffsetsRequestGroup"
) -> Message:
    shares = context.broker.share_groups
    topics: list[Message] = []
    try:
        group = await shares.describe(asked.group_id)
        code, message = group_code(group.error), group.error_message
        if code is ErrorCode.none and asked.topics is None:
            for view in shares.topics_of(asked.group_id):
                indexes = range(len(view.partitions))
                topics.append(await _topic(context, asked.group_id, view.name, indexes))
        elif code is ErrorCode.none:
            for topic in asked.topics or ():
                topics.append(
                    await _topic(context, asked.group_id, topic.topic_name, topic.partitions)
                )
    except GoQueueError as error:
        code, message = failure_code(error), error.message
    return {
        "group_id": asked.group_id,
        "topics": topics,
        "error_code": code,
        "error_message": message or None,
    }


async def _topic(
    context: RequestContext, group_id: str, name: str, indexes: Sequence[int]
) -> Message:
    view = context.broker.image.topics.get(name)
    found: list[QueueDescription] = []
    problem: GoQueueError | None = None
    if view is not None:
        try:
            found = await context.broker.share_groups.describe_offsets(group_id, name)
        except GoQueueError as error:
            problem = error
    return {
        "topic_name": name,
        "topic_id": None if view is None else view.id,
        "partitions": [_partition(context, view, index, found, problem) for index in indexes],
    }


def _partition(
    context: RequestContext,
    view: TopicView | None,
    index: int,
    found: Sequence[QueueDescription],
    problem: GoQueueError | None,
) -> Message:
    answer: dict[str, Any] = {
        "partition_index": index,
        "start_offset": -1,
        "leader_epoch": 0,
        "lag": -1,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    if problem is not None:
        return {**answer, "error_code": error_code(problem), "error_message": problem.message}
    if view is None or not 0 <= index < len(found):
        return {
            **answer,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "error_message": "there is no such partition",
        }
    queue = found[index]
    if queue.error is QueueError.UNKNOWN_QUEUE:
        # Nobody has read it yet.
        return answer
    partition = context.broker.partition(view.name, index)
    start = max(queue.floor, partition.log_start_offset)
    answer["start_offset"] = start
    answer["leader_epoch"] = partition.leader_epoch
    answer["lag"] = max(partition.high_watermark - start - queue.settled_above_floor, 0)
    return answer


OPERATION = Operation(
    api_key=90, name="DescribeShareGroupOffsets", min_version=0, max_version=1, handle=handle
)
