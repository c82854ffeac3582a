"""Where a group is in its partitions, and how far that is from the end."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.model.groups.overview import GroupPosition


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


def show_position(found: GroupPosition) -> GroupPartition:
    return GroupPartition(
        topic=found.place.topic,
        partition=found.place.partition,
        committed_offset=found.committed_offset,
        metadata=found.metadata,
        log_start_offset=found.log_start_offset,
        high_watermark=found.high_watermark,
        lag=found.lag,
        member_id=found.member_id,
    )
