"""What offsets and administration need to know of a group, whatever its protocol."""

from typing import NamedTuple, Protocol

from goqueue.model.groups.messages import GroupKind
from goqueue.state.groups.records import CommittedOffset
from goqueue.state.machine import StateRecord


class Committer(NamedTuple):
    """Who a commit says it comes from."""

    member_id: str
    instance_id: str | None
    # The generation of a classic member, the epoch of a consumer member, or -1.
    generation: int
    transactional: bool


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def is_empty(self) -> bool:
        """No members and none on the way: the group may be deleted or converted."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def check_offset_commit(self, committer: Committer) -> None:
        """Raise `Refused` unless this member may commit now."""
        ...

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        """Since when the retention of an offset nobody reads runs; None while it does not run."""
        ...

    def tombstones(self) -> list[StateRecord]:
        """Records that delete the group."""
        ...
