"""A group as people look at it: members and what they read, offsets and how far behind they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.model.calls import Unanswered
from goqueue.model.groups.messages import (
    NO_OFFSET,
    Client,
    FetchedOffset,
    GroupKind,
    ListedGroup,
)
from goqueue.model.log import LogEnds
from goqueue.model.names import TopicPartition


class GroupListing(NamedTuple):
    """Groups of all brokers, and brokers whose groups are missing."""

    groups: list[ListedGroup]
    unanswered: list[Unanswered]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOverview:
    member_id: str
    instance_id: str | None
    client: Client
    topics: tuple[str, ...]
    topic_regex: str | None
    # Of a member of the consumer or streams protocol (KIP-848, KIP-1071).
    epoch: int | None
    held: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverview:
    """A group of a protocol with offsets. A classic group in a rebalance holds nothing."""

    group_id: str
    kind: GroupKind
    state: str
    assignor: str
    members: tuple[MemberOverview, ...]

    @property
    def owners(self) -> Mapping[TopicPartition, str]:
        """Who reads each partition now."""
        return {place: member.member_id for member in self.members for place in member.held}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """Where a group is in a partition. None stands for what is not known: no commit yet, or a
    partition that is deleted or has no leader."""

    place: TopicPartition
    committed_offset: int | None
    metadata: str
    log_start_offset: int | None
    high_watermark: int | None
    member_id: str | None

    @classmethod
    def of(
        cls,
        place: TopicPartition,
        found: FetchedOffset | None,
        ends: LogEnds | None,
        member_id: str | None,
    ) -> "GroupPosition":
        return cls(
            place=place,
            committed_offset=None if found is None or found.offset == NO_OFFSET else found.offset,
            metadata="" if found is None else found.metadata,
            log_start_offset=None if ends is None else ends.log_start_offset,
            high_watermark=None if ends is None else ends.high_watermark,
            member_id=member_id,
        )

    @property
    def lag(self) -> int | None:
        """Messages from the committed offset to the end."""
        if self.committed_offset is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.committed_offset)
