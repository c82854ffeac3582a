"""Offsets that are to be committed: whether their partitions are there, and answers to each."""

from collections.abc import Mapping, Sequence

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    OffsetCommitResult,
    OffsetToCommit,
    TxnOffsetCommit,
)
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.topics import TopicView


def exists(topics: Mapping[str, TopicView], topic: str, index: int) -> bool:
    view = topics.get(topic)
    return view is not None and 0 <= index < len(view.partitions)


def check_partitions(topics: Mapping[str, TopicView], offsets: Sequence[OffsetToCommit]) -> None:
    """All or nothing: clients that live in a broker find an unknown partition before any commit."""
    for position, each in enumerate(offsets):
        if not exists(topics, each.topic, each.partition):
            raise GroupRefused(
                GroupError.UNKNOWN_TOPIC_OR_PARTITION,
                f"offsets[{position}]: there is no partition {each.partition} of topic "
                f"{each.topic!r}",
            )


def complete(asked: Sequence[OffsetToCommit], result: OffsetCommitResult) -> OffsetCommitResult:
    """One answer to each offset, in the order asked, if some were not passed on."""
    if len(asked) == len(result.partitions):
        return result
    answered = {(each.topic, each.partition): each for each in result.partitions}
    return OffsetCommitResult(
        partitions=tuple(
            answered.get((each.topic, each.partition))
            or CommittedPartition(
                topic=each.topic,
                partition=each.partition,
                error=GroupError.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for each in asked
        )
    )


def fenced(request: TxnOffsetCommit) -> OffsetCommitResult:
    return OffsetCommitResult(
        partitions=tuple(
            CommittedPartition(
                topic=offset.topic,
                partition=offset.partition,
                error=GroupError.INVALID_PRODUCER_EPOCH,
            )
            for offset in request.offsets
        )
    )
