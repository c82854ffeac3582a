"""AlterReplicaLogDirs (KIP-113): move replicas to another directory of the broker.

A broker has one directory, in which all its replicas are: naming another one is refused as Kafka
refuses those that it was not configured with.
"""

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
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest


async def handle(context: RequestContext, request: "AlterReplicaLogDirsRequest") -> Message:
    # A replica that is named for several directories goes to the last one.
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, list[Message]] = {}
    async for (topic, index), path in in_slices(list(wanted.items())):
        code = _code(context, path, topic, index)
        part = {"partition_index": index, "error_code": code}
        topics.setdefault(topic, []).append(part)
    return {
        "results": [{"topic_name": name, "partitions": parts} for name, parts in topics.items()]
    }


def _code(context: RequestContext, path: str, topic: str, index: int) -> ErrorCode:
    try:
        context.service.administration.move_to_log_dir(context.caller, path, topic, index)
    except GoQueueError as error:
        return error_code(error)
    return ErrorCode.none


OPERATION = Operation(
    api_key=34,
    name="AlterReplicaLogDirs",
    min_version=1,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER, refused=Refused.EACH),),
    names_resources=True,
)
