"""Offsets to commit, as OffsetCommit and TxnOffsetCommit carry them."""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import UnknownTopicId
from goqueue.model.groups.messages import OffsetToCommit
from goqueue.model.rights import Verb

TopicAndPartition = tuple[str, int]


def topic_name(context: RequestContext, topic: Any, verb: Verb) -> str | None:
    """The name of a topic that is given by name or, in newer versions, by id; None if unknown,
    or unknown to those who may not do `verb`."""
    if hasattr(topic, "name"):
        name: str = topic.name
        return name
    if topic.topic_id is None:
        return None
    try:
        return context.service.topics.name_of(context.caller, topic.topic_id, verb)
    except UnknownTopicId:
        return None


def offsets_to_commit(context: RequestContext, topics: Iterable[Any]) -> tuple[OffsetToCommit, ...]:
    """Those of topics whose id is known; others are answered as unknown."""
    offsets = []
    for topic in topics:
        name = topic_name(context, topic, Verb.READ)
        if name is None:
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
        unknown = ErrorCode.unknown_topic_or_partition
        if by_id and name is None:
            unknown = ErrorCode.unknown_topic_id
        answered.append(
            {
                **({"topic_id": topic.topic_id} if by_id else {"name": topic.name}),
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": codes.get((name or "", part.partition_index), unknown),
                    }
                    for part in topic.partitions
                ],
            }
        )
    return {"topics": answered}
