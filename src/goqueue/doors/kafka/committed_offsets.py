"""Offsets to commit, as OffsetCommit and TxnOffsetCommit carry them."""

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import UnknownTopicId
from goqueue.model.groups.messages import OffsetToCommit

Place = tuple[str, int]


def topic_name(broker: Node, topic: Any) -> str | None:
    """The name of a topic that is given by name or, in newer versions, by id; None if unknown."""
    if hasattr(topic, "name"):
        name: str = topic.name
        return name
    if topic.topic_id is None:
        return None
    try:
        return broker.topic_by_id(topic.topic_id).name
    except UnknownTopicId:
        return None


def offsets_to_commit(broker: Node, topics: Iterable[Any]) -> tuple[OffsetToCommit, ...]:
    """Those for partitions that exist; others are answered as unknown."""
    offsets = []
    for topic in topics:
        name = topic_name(broker, topic)
        view = None if name is None else broker.image.topics.get(name)
        if name is None or view is None:
            continue
        for part in topic.partitions:
            if 0 <= part.partition_index < len(view.partitions):
                offsets.append(
                    OffsetToCommit(
                        topic=name,
                        partition=part.partition_index,
                        offset=part.committed_offset,
                        leader_epoch=part.committed_leader_epoch,
                        metadata=part.committed_metadata or "",
                    )
                )
    return tuple(offsets)


def commit_answer(broker: Node, topics: Iterable[Any], codes: Mapping[Place, ErrorCode]) -> Message:
    """One code for each partition of the request, in its order."""
    answered = []
    for topic in topics:
        name = topic_name(broker, topic)
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
