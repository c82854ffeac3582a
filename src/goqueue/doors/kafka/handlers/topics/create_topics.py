"""CreateTopics: each topic of the request succeeds or fails by itself."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.config_resources import setting_row
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigEntry
from goqueue.model.errors import (
    GoQueueError,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
)
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import NewTopic
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

# From then on clients know that a quota was exceeded, and what was not made (KIP-599).
FIRST_STRICT_VERSION: Final = 6
# KIP-464: the broker's default count or factor.
_BROKER_DEFAULT: Final = -1


async def handle(context: RequestContext, request: "CreateTopicsRequest") -> Message:
    asked = Counter(topic.name for topic in request.topics)
    answers = [
        _refusal(name, InvalidRequest(f"topic {name!r} is asked for {count} times"))
        for name, count in asked.items()
        if count > 1
    ]
    # Topics have most settings in common, and it may take minutes to make thousands of them.
    row_of = cache(setting_row)
    answers += [
        await _created(context, topic, row_of, validate_only=request.validate_only)
        async for topic in in_slices(request.topics)
        if asked[topic.name] == 1
    ]
    if context.quota is not None:
        context.quota.changed_partitions()
    return {"topics": answers}


async def _created(
    context: RequestContext,
    asked: "CreatableTopic",
    row_of: Callable[[ConfigEntry], Message],
    *,
    validate_only: bool,
) -> Message:
    try:
        topic, configs = await context.service.topics.make(
            context.caller,
            _new_topic(asked),
            validate_only=validate_only,
            is_strict=context.version >= FIRST_STRICT_VERSION,
        )
    except GoQueueError as error:
        return _refusal(asked.name, error)
    made: Message = {
        "name": topic.name,
        "topic_id": None if validate_only else topic.id,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    if configs is None:
        # KIP-525: what was made is told to those who may see settings.
        return {
            **made,
            "topic_config_error_code": ErrorCode.topic_authorization_failed,
            "configs": None,
        }
    return {
        **made,
        "num_partitions": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas),
        "configs": [row_of(entry) for entry in configs],
    }


def _new_topic(asked: "CreatableTopic") -> NewTopic:
    for config in asked.configs:
        if config.value is None:
            raise InvalidConfig(f"{config.name}: null is not a value")
    by_hand = bool(asked.assignments)
    if by_hand and asked.num_partitions != _BROKER_DEFAULT:
        raise InvalidRequest("num_partitions must be -1 when replicas are assigned by hand")
    if by_hand and asked.replication_factor != _BROKER_DEFAULT:
        raise InvalidRequest("replication_factor must be -1 when replicas are assigned by hand")
    assignments: dict[int, Sequence[int]] = {
        item.partition_index: item.broker_ids for item in asked.assignments
    }
    if len(assignments) < len(asked.assignments):
        raise InvalidReplicaAssignment("a partition is assigned more than once")
    return NewTopic(
        name=asked.name,
        partitions=None if asked.num_partitions == _BROKER_DEFAULT else asked.num_partitions,
        replication_factor=(
            None if asked.replication_factor == _BROKER_DEFAULT else asked.replication_factor
        ),
        assignments=assignments if by_hand else None,
        config={config.name: config.value or "" for config in asked.configs},
    )


def _refusal(name: str, error: GoQueueError) -> Message:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error_code(error),
        "error_message": error.message,
        "configs": (),
    }


OPERATION = Operation(
    api_key=19,
    name="CreateTopics",
    min_version=2,
    max_version=7,
    handle=handle,
    names_resources=True,
    needs=(
        Need(
            Resource.TOPIC,
            Verb.CREATE,
            names="topics.name",
            refused=Refused.EACH,
            or_cluster=True,
        ),
        Need(
            Resource.TOPIC,
            Verb.DESCRIBE_CONFIGS,
            names="topics.name",
            refused=Refused.LEFT_OUT,
        ),
    ),
)
