"""CreatePartitions: raise the partition count of topics."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

# As of CreateTopics.
FIRST_STRICT_VERSION: Final = 3


async def handle(context: RequestContext, request: "CreatePartitionsRequest") -> Message:
    asked = Counter(topic.name for topic in request.topics)
    answers = [
        _answer(name, InvalidRequest(f"topic {name!r} is asked for {count} times"))
        for name, count in asked.items()
        if count > 1
    ]
    answers += [
        await _raised(context, topic, validate_only=request.validate_only)
        async for topic in in_slices(request.topics)
        if asked[topic.name] == 1
    ]
    if context.quota is not None:
        context.quota.changed_partitions()
    return {"results": answers}


async def _raised(
    context: RequestContext, asked: "CreatePartitionsTopic", *, validate_only: bool
) -> Message:
    assignments = asked.assignments
    try:
        await context.service.topics.create_partitions(
            context.caller,
            asked.name,
            asked.count,
            assignments=None if assignments is None else [item.broker_ids for item in assignments],
            validate_only=validate_only,
            is_strict=context.version >= FIRST_STRICT_VERSION,
        )
    except GoQueueError as error:
        return _answer(asked.name, error)
    return _answer(asked.name, None)


def _answer(name: str, error: GoQueueError | None) -> Message:
    return {
        "name": name,
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
    }


OPERATION = Operation(
    api_key=37,
    name="CreatePartitions",
    min_version=0,
    max_version=3,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.TOPIC, Verb.ALTER, names="topics.name", refused=Refused.EACH),),
)
