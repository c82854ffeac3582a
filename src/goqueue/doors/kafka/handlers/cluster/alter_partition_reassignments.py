"""AlterPartitionReassignments (KIP-455): move partitions to other brokers, or take it back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidReplicaAssignment
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
    )


async def handle(context: RequestContext, request: "AlterPartitionReassignmentsRequest") -> Message:
    wanted: dict[TopicPartition, Sequence[int] | None] = {}
    repeated: set[TopicPartition] = set()
    async for topic in in_slices(request.topics):
        for part in topic.partitions:
            name = topic_partition(topic.name, part.partition_index)
            if name in wanted:
                repeated.add(name)
            wanted[name] = part.replicas
    # Version 0 does not know that it could be refused.
    may_change = getattr(request, "allow_replication_factor_change", True)
    try:
        answers = await context.service.replica_moves.alter(
            context.caller,
            {name: target for name, target in wanted.items() if name not in repeated},
            keep_factor=not may_change,
        )
    except GoQueueError as error:
        return {
            "allow_replication_factor_change": may_change,
            "error_code": error_code(error),
            "error_message": error.message,
            "responses": [],
        }
    twice = InvalidReplicaAssignment("the partition is named more than once")
    topics: dict[str, list[Message]] = {}
    for name in wanted:
        failure = answers.get(name, twice)
        topics.setdefault(name.topic, []).append(
            {
                "partition_index": name.partition,
                "error_code": ErrorCode.none if failure is None else error_code(failure),
                "error_message": None if failure is None else failure.message,
            }
        )
    return {
        "allow_replication_factor_change": may_change,
        "error_code": ErrorCode.none,
        "error_message": None,
        "responses": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }


OPERATION = Operation(
    api_key=45,
    name="AlterPartitionReassignments",
    min_version=0,
    max_version=1,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
    names_resources=True,
)
