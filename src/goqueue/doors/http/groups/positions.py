"""Where a group is in its partitions, and how far that is from the end."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.broker.node import Node
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import NO_OFFSET, FetchedOffset, OffsetFetch
from goqueue.model.groups.refusals import check
from goqueue.model.names import TopicPartition, topic_partition


class GroupPartition(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    committed_offset: Annotated[
        int | None, Meta(description="The next message to read; null before the first commit.")
    ]
    metadata: str
    log_start_offset: int | None
    high_watermark: int | None
    lag: Annotated[int | None, Meta(description="Messages from the committed offset to the end.")]
    member_id: Annotated[str | None, Meta(description="Who reads it now.")]


async def positions_of(
    broker: Node, group: str, owners: Mapping[TopicPartition, str], topic: str | None = None
) -> list[GroupPartition]:
    """All partitions that have an offset or an owner, in order."""
    fetched = await broker.groups.fetch_offsets(OffsetFetch(group_id=group))
    check(fetched.error)
    found = {topic_partition(each.topic, each.partition): each for each in fetched.offsets}
    places = {place for place in found.keys() | owners.keys() if topic in (None, place.topic)}
    return [_show(broker, place, found.get(place), owners.get(place)) for place in sorted(places)]


def _show(
    broker: Node, place: TopicPartition, found: FetchedOffset | None, owner: str | None
) -> GroupPartition:
    committed = None if found is None or found.offset == NO_OFFSET else found.offset
    start = end = None
    try:
        partition = broker.partition(*place)
        start, end = partition.log_start_offset, partition.high_watermark
    except GoQueueError:
        pass  # deleted or led by another broker: the offset is still worth showing
    has_lag = committed is not None and end is not None
    return GroupPartition(
        topic=place.topic,
        partition=place.partition,
        committed_offset=committed,
        metadata="" if found is None else found.metadata,
        log_start_offset=start,
        high_watermark=end,
        lag=max(0, (end or 0) - (committed or 0)) if has_lag else None,
        member_id=owner,
    )
