"""DeleteTopics: by name, and from version 6 on also by id."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

FIRST_VERSION_WITH_TOPIC_ID: Final = 6
# As of CreateTopics.
FIRST_STRICT_VERSION: Final = 5

_Asked = tuple[str | None, UUID | None]


async def handle(context: RequestContext, request: "DeleteTopicsRequest") -> Message:
    asked: list[_Asked]
    if context.version >= FIRST_VERSION_WITH_TOPIC_ID:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        names: Any = getattr(request, "topic_names", ())
        asked = [(name, None) for name in names]
    times = Counter(asked)
    names_by_id = [_resolved(context, topic_id) for name, topic_id in times if name is None]
    answers = [
        await _deleted(
            context, one, is_repeated=count > 1 or (one[1] is None and one[0] in names_by_id)
        )
        async for one, count in in_slices(times.items())
    ]
    if context.quota is not None:
        context.quota.changed_partitions()
    return {"responses": answers}


def _resolved(context: RequestContext, topic_id: UUID | None) -> str | None:
    if topic_id is None:
        return None
    try:
        return context.service.topics.name_of(context.caller, topic_id, Verb.DELETE)
    except GoQueueError:
        return None


async def _deleted(context: RequestContext, asked: _Asked, *, is_repeated: bool) -> Message:
    name, topic_id = asked
    try:
        if name is not None and topic_id is not None:
            raise InvalidRequest("give a topic's name or its id, not both")
        if is_repeated:
            raise InvalidRequest("the topic is asked for more than once")
        if topic_id is not None:
            name = context.service.topics.name_of(context.caller, topic_id, Verb.DELETE)
        if name is None:
            raise InvalidRequest("neither name nor id of the topic is given")
        is_strict = context.version >= FIRST_STRICT_VERSION
        deleted = await context.service.topics.delete(context.caller, name, is_strict=is_strict)
    except GoQueueError as error:
        return {
            "name": name,
            "topic_id": asked[1],
            "error_code": error_code(error),
            "error_message": error.message,
        }
    return {"name": deleted.name, "topic_id": deleted.id, "error_code": ErrorCode.none}


OPERATION = Operation(
    api_key=20,
    name="DeleteTopics",
    min_version=1,
    max_version=6,
    handle=handle,
    names_resources=True,
    needs=(
        Need(
            Resource.TOPIC,
            Verb.DELETE,
            names="topic_names, topics.name, topics.topic_id",
            refused=Refused.EACH,
        ),
    ),
)
