"""OffsetFetch: where groups are in their partitions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from goqueue.doors.kafka.committed_offsets import topic_name
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import FetchedOffset, OffsetFetch, OffsetFetchResult
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequest

_FIRST_VERSION_WITH_MANY_GROUPS: Final = 8
_FIRST_VERSION_WITH_TOPIC_ID: Final = 10
_FIRST_VERSION_WITH_GROUP_ERROR: Final = 2

_Named = tuple[Mapping[str, Any], str | GoQueueError, Sequence[int]]


async def handle(context: RequestContext, request: "OffsetFetchRequest") -> Message:
    if context.version >= _FIRST_VERSION_WITH_MANY_GROUPS:
        return {
            "groups": [
                await _group(context, group, request.require_stable)
                async for group in in_slices(request.groups)
            ]
        }
    answer = await _group(context, request, request.require_stable)
    if context.version < _FIRST_VERSION_WITH_GROUP_ERROR and answer["error_code"]:
        # There is no place for an error of the group: every partition says it.
        for topic in answer["topics"]:
            for part in topic["partitions"]:
                part["error_code"] = answer["error_code"]
    return answer


async def _group(context: RequestContext, asked: Any, require_stable: bool) -> Message:
    named: list[_Named] | None = None
    if asked.topics is not None:
        named = [
            (
                {"name": topic.name} if hasattr(topic, "name") else {"topic_id": topic.topic_id},
                topic_name(context, topic, Verb.DESCRIBE),
                topic.partition_indexes,
            )
            for topic in asked.topics
        ]
    fetch = OffsetFetch(
        group_id=asked.group_id,
        topics=None
        if named is None
        else {name: indexes for _, name, indexes in named if isinstance(name, str)},
        require_stable=require_stable,
        member_id=getattr(asked, "member_id", None),
        member_epoch=getattr(asked, "member_epoch", -1),
    )
    try:
        result = await context.service.groups.fetch_offsets(context.caller, fetch)
        code = group_code(result.error)
    except GoQueueError as error:
        result, code = OffsetFetchResult(group_id=asked.group_id), failure_code(error)
    found: dict[str, dict[int, FetchedOffset]] = {}
    for offset in result.offsets:
        found.setdefault(offset.topic, {})[offset.partition] = offset
    if named is None:
        named = [
            (_naming(context, name), name, list(partitions)) for name, partitions in found.items()
        ]
    return {
        "group_id": asked.group_id,
        "error_code": code,
        "topics": [
            {
                **naming,
                "partitions": [
                    _refused(index, name)
                    if isinstance(name, GoQueueError)
                    else _partition(index, found.get(name, {}).get(index))
                    for index in indexes
                ],
            }
            for naming, name, indexes in named
        ],
    }


def _naming(context: RequestContext, name: str) -> Mapping[str, Any]:
    if context.version < _FIRST_VERSION_WITH_TOPIC_ID:
        return {"name": name}
    return {"topic_id": context.service.groups.topic_id(context.caller, name)}


def _partition(index: int, found: FetchedOffset | None) -> dict[str, Any]:
    if found is None:
        found = FetchedOffset(topic="", partition=index)
    return {
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": group_code(found.error),
    }


def _refused(index: int, error: GoQueueError) -> dict[str, Any]:
    return {**_partition(index, None), "error_code": error_code(error)}


OPERATION = Operation(
    api_key=9,
    name="OffsetFetch",
    min_version=1,
    max_version=10,
    handle=handle,
    needs=(
        Need(
            Resource.GROUP, Verb.DESCRIBE, names="group_id, groups.group_id", refused=Refused.EACH
        ),
        Need(
            Resource.TOPIC,
            Verb.DESCRIBE,
            names="topics.name, groups.topics.name, groups.topics.topic_id",
            refused=Refused.EACH,
        ),
    ),
    only_reads=True,
)
