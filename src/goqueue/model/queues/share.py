"""What members of share groups (KIP-932) ask for, and what they get."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.queues.messages import Leased


class SharePart(NamedTuple):
    topic_id: UUID
    partition: int


class ShareMember(NamedTuple):
    """A member of a share group, as it fetches and acknowledges."""

    group_id: str
    member_id: str


class ShareTerms(NamedTuple):
    """What a group's settings say to its members."""

    lock_duration_ms: int
    may_renew: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetch:
    # In the order in which they are served.
    wanted: Sequence[SharePart]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    # Acquired ranges are cut where a batch ends so that they have about this many records.
    batch_size: int
    # Never more than `max_records`, even if batches are sent again for the rest (KIP-1206).
    is_strict: bool = False
    # Refusals that the member has been told: no news, so that the fetch waits as if they had
    # nothing.
    known_refused: Collection[SharePart] = ()


@dataclass(frozen=True, slots=True)
class ShareFetched:
    part: SharePart
    error: GoQueueError | None = None
    data: bytes | memoryview = b""
    acquired: Sequence[Leased] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """How far a share group is in a partition: below, all is acknowledged.

    -1 where nobody has read it yet.
    """

    index: int
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = -1
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTopicOffsets:
    name: str
    # None: there is no such topic, or it may not be seen.
    topic_id: UUID | None
    partitions: Sequence[ShareOffset] = ()
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsets:
    """Offsets of a share group: as they are, or what became of each change."""

    error: GroupError = GroupError.NONE
    error_message: str = ""
    topics: Sequence[ShareTopicOffsets] = ()


class NewShareOffset(NamedTuple):
    partition: int
    start_offset: int
