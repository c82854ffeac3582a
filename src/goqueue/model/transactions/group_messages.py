"""What callers ask about groups of transactions, and what they are answered."""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from goqueue.model.transactions.errors import TransactionError

# A group's record is some 100 bytes, while a query that stood still for months must not write its
# last batch twice when it goes on: so for a year.
KEEP_MS_DEFAULT: Final = 365 * 24 * 3_600_000


class GroupMember(NamedTuple):
    """A producer as it was when it wrote: whoever came after it has another epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CommitGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Commit the named members, abort all others of the group, and remember `sequence`.

    With `closes`, nobody becomes a member any more: a task that comes late would leave something
    open.
    """

    group_id: str
    sequence: int
    members: tuple[GroupMember, ...]
    keep_ms: int = KEEP_MS_DEFAULT
    closes: bool = False


class AbortGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Abort the named members, or with None all of the group, unless `sequence` is committed."""

    group_id: str
    sequence: int
    members: tuple[GroupMember, ...] | None = None
    # As in `CommitGroup`; `keep_ms` is for how long.
    closes: bool = False
    keep_ms: int = KEEP_MS_DEFAULT


class RenewGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The time-outs of all open members begin anew: somebody of the group is alive."""

    group_id: str


class GroupRenewed(msgspec.Struct, frozen=True, kw_only=True):
    open_members: int


class GroupOutcome(Enum):
    COMMITTED = "committed"
    ALREADY_COMMITTED = "alreadyCommitted"
    ABORTED = "aborted"


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: TransactionError
    outcome: GroupOutcome | None = None
    # The members whose markers are being written.
    ending: tuple[str, ...] = ()
    # Whom the error is about.
    refused: GroupMember | None = None


class DescribeGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str


class OpenMember(msgspec.Struct, frozen=True, kw_only=True):
    member: GroupMember
    state: str
    start_ms: int


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    # None: nothing was committed yet, or so long ago that it is forgotten.
    last_sequence: int | None
    committed_ms: int | None
    open_members: tuple[OpenMember, ...]
