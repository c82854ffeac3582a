"""Offsets to commit, as OffsetCommit and TxnOffsetCommit carry them."""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, UnknownTopicId
from goqueue.model.groups.messages import OffsetToCommit
from goqueue.model.rights import Verb

TopicAndPartition = tuple[str, int]


def topic_name(context: RequestContext, topic: Any, verb: Verb) -> str | GoQueueError:
    """The name of a topic that is given by name or, in newer versions, by id; else why it is not
    told: the id is unknown, or the caller may not do `verb`."""
    if hasattr(topic, "name"):
        name: str = topic.name
        return name
    try:
        if topic.topic_id is None:
            raise UnknownTopicId("topic id is empty")
        return context.service.topics.name_of(context.caller, topic.topic_id, verb)
    except GoQueueError as error:
        return error


def offsets_to_commit(context: RequestContext, topics: Iterable[Any]) -> tuple[OffsetToCommit, ...]:
    """Those of topics whose name is known; others are answered with the reason."""
    offsets = []
    for topic in topics:
        name = topic_name(context, topic, Verb.READ)
        if isinstance(name, GoQueueError):
            continue
        offsets += [
            OffsetToCommit(
                topic=name,
                partition=part.partition_index,
                offset=part.committed_offset,
                leader_epoch=part.committed_leader_epoch,
                metadata=part.committed_metadata or "",
            )
            for part in topic.partitions
        ]
    return tuple(offsets)


def commit_answer(
    context: RequestContext, topics: Iterable[Any], codes: Mapping[TopicAndPartition, ErrorCode]
) -> Message:
    """One code for each partition of the request, in its order."""
    answered = []
    for topic in topics:
        name = topic_name(context, topic, Verb.READ)
        by_id = not hasattr(topic, "name")
        refusal = ErrorCode.unknown_topic_or_partition
        if isinstance(name, GoQueueError):
            refusal, name = error_code(name), ""
        answered.append(
            {
                **({"topic_id": topic.topic_id} if by_id else {"name": topic.name}),
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": codes.get((name, part.partition_index), refusal),
                    }
                    for part in topic.partitions
                ],
            }
        )
    return {"topics": answered}
