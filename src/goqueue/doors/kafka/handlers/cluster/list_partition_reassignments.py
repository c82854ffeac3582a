"""ListPartitionReassignments (KIP-455): partitions that are on their way to other brokers."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest,
    )


async def handle(context: RequestContext, request: "ListPartitionReassignmentsRequest") -> Message:
    asked: set[TopicPartition] | None = None
    if request.topics is not None:
        asked = {
            topic_partition(topic.name, index)
            async for topic in in_slices(request.topics)
            for index in topic.partition_indexes
        }
    try:
        found = context.service.replica_moves.under_way(context.caller)
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error.message, "topics": []}
    topics: dict[str, list[Message]] = {}
    for name, view in found:
        if asked is None or name in asked:
            topics.setdefault(name.topic, []).append(
                {
                    "partition_index": name.partition,
                    "replicas": view.replicas,
                    "adding_replicas": view.state.adding,
                    "removing_replicas": view.state.removing,
                }
            )
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }


OPERATION = Operation(
    api_key=46,
    name="ListPartitionReassignments",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE),),
    names_resources=True,
    only_reads=True,
)
