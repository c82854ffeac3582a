"""DescribeLogDirs (KIP-113): how much each partition takes on disk."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import ClusterAccessDenied
from goqueue.model.log import StoredPartitionSize
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

# Earlier answers have no error of their own, only those of folders.
_FIRST_VERSION_WITH_CODE: Final = 3


async def handle(context: RequestContext, request: "DescribeLogDirsRequest") -> Message:
    asked = (
        None
        if request.topics is None
        else dict.fromkeys(
            (topic.topic, index) for topic in request.topics for index in topic.partitions
        )
    )
    try:
        view = await context.service.administration.log_dirs(context.caller, asked)
    except ClusterAccessDenied as error:
        return _refused(context.version, error_code(error))
    topics: dict[str, list[StoredPartitionSize]] = {}
    async for part in in_slices(view.partitions):
        topics.setdefault(part.topic, []).append(part)
    return {
        "error_code": ErrorCode.none,
        "results": [
            {
                "error_code": ErrorCode.none,
                "log_dir": view.path,
                "topics": [
                    {"name": name, "partitions": Rows(parts, _partition)}
                    for name, parts in topics.items()
                ],
                "total_bytes": view.space.total_bytes,
                "usable_bytes": view.space.usable_bytes,
            }
        ],
    }


def _partition(part: StoredPartitionSize) -> Message:
    return {
        "partition_index": part.index,
        "partition_size": part.size_bytes,
        "offset_lag": part.lag,
        "is_future_key": False,
    }


def _refused(version: int, code: ErrorCode) -> Message:
    if version >= _FIRST_VERSION_WITH_CODE:
        return {"error_code": code, "results": ()}
    return {"results": [{"error_code": code, "log_dir": "", "topics": ()}]}


OPERATION = Operation(
    api_key=35,
    name="DescribeLogDirs",
    min_version=1,
    max_version=5,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE),),
    only_reads=True,
)
