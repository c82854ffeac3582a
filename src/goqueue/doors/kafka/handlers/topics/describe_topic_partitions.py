"""DescribeTopicPartitions (KIP-966): topics page by page, with a cursor."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.authorized_operations import operations_on
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import check_topic_name
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import PartitionView, TopicView
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

# Kafka's max.request.partition.size.limit: what one answer has at most, whatever is asked for.
PARTITIONS_MAX: Final = 2_000


async def handle(context: RequestContext, request: "DescribeTopicPartitionsRequest") -> Message:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise Malformed(f"cursor partition_index is {cursor.partition_index}; it must be ≥ 0")
    asked = {str(topic.name) for topic in request.topics}
    topics_of = context.service.topics
    names = sorted(asked or {str(topic.name) for topic in topics_of.views(context.caller)})
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[Message] = []
    next_cursor: Message | None = None
    async for name in in_slices(names):
        if left == 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        try:
            topic = topics_of.view(context.caller, check_topic_name(name))
        except GoQueueError as error:
            topics.append(
                {
                    "error_code": error_code(error),
                    "name": name,
                    "topic_id": None,
                    "partitions": (),
                }
            )
            continue
        chosen = topic.partitions[start : start + left]
        topics.append(_topic(context, topic, chosen))
        left -= len(chosen)
        if start + len(chosen) < len(topic.partitions):
            next_cursor = {"topic_name": name, "partition_index": start + len(chosen)}
            break
    return {"topics": topics, "next_cursor": next_cursor}


def _topic(
    context: RequestContext, topic: TopicView, partitions: tuple[PartitionView, ...]
) -> Message:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": (
                    ErrorCode.none if part.leader >= 0 else ErrorCode.leader_not_available
                ),
                "partition_index": part.index,
                "leader_id": part.leader,
                "leader_epoch": part.leader_epoch,
                "replica_nodes": part.replicas,
                "isr_nodes": part.isr,
                "eligible_leader_replicas": part.eligible,
                "last_known_elr": (),
                "offline_replicas": part.offline,
            }
            for part in partitions
        ],
        "topic_authorized_operations": operations_on(context, Resource.TOPIC, topic.name),
    }


OPERATION = Operation(
    api_key=75,
    name="DescribeTopicPartitions",
    min_version=0,
    max_version=0,
    handle=handle,
    # Of all topics, those that may not be described are left out.
    needs=(Need(Resource.TOPIC, Verb.DESCRIBE, names="topics.name", refused=Refused.EACH),),
    only_reads=True,
)
