"""A share group (KIP-932): members and what each of them reads. Changed by replay only.

Epochs are those of consumer groups. There is no handing over: two members may read the same
partition, so that a member gets its target as soon as it asks.
"""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.model.groups.assignment import Assignment, assignment, stored
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import GroupKind
from goqueue.state.groups.group import Committer
from goqueue.state.groups.records import (
    CommittedOffset,
    ShareGroupKey,
    ShareGroupValue,
    ShareMemberKey,
    ShareMemberValue,
    ShareTargetKey,
    ShareTargetValue,
    record,
    tombstone,
)
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.room import names_bytes
from goqueue.state.groups.states import ShareState
from goqueue.state.machine import StateRecord


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    said: ShareMemberValue = field(default_factory=ShareMemberValue)
    assigned: Assignment = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        return self.said.epoch


@dataclass(slots=True, eq=False)
class ShareGroup:
    group_id: str
    epoch: int = 0
    topics_digest: int = 0
    assignment_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    topic_subscribers: Counter[str] = field(default_factory=Counter)
    # What all members subscribe to.
    subscription_bytes: int = 0
    # Volatile: topics changed since the epoch was last compared with them.
    topics_changed: bool = True

    # --- as a Group -----------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.SHARE

    @property
    def protocol_type(self) -> str:
        return "share"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ShareState:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    @property
    def state_name(self) -> str:
        return self.state.value

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_subscribers

    def check_offset_commit(self, committer: Committer) -> None:  # noqa: ARG002
        raise self._no_offsets()

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        raise self._no_offsets()

    def check_offset_delete(self) -> None:
        raise self._no_offsets()

    def _no_offsets(self) -> Refused:
        return Refused(
            GroupError.GROUP_ID_NOT_FOUND,
            f"group {self.group_id!r} is a share group: it acknowledges records, not offsets",
        )

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:  # noqa: ARG002
        return None

    def tombstones(self) -> list[StateRecord]:
        records = [r for member_id in self.members for r in self.member_tombstones(member_id)]
        records.append(tombstone(ShareGroupKey(self.group_id)))
        return records

    # --- questions ------------------------------------------------------------------------

    def member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise Refused(
                GroupError.UNKNOWN_MEMBER_ID,
                f"member {member_id!r} is not a member of group {self.group_id!r}",
            )
        return member

    # --- records --------------------------------------------------------------------------

    def group_record(self, epoch: int, topics_digest: int, assignment_epoch: int) -> StateRecord:
        value = ShareGroupValue(epoch, topics_digest, assignment_epoch)
        return record(ShareGroupKey(self.group_id), value)

    def member_record(self, member_id: str, said: ShareMemberValue) -> StateRecord:
        return record(ShareMemberKey(self.group_id, member_id), said)

    def target_record(self, member_id: str, target: Assignment) -> StateRecord:
        key = ShareTargetKey(self.group_id, member_id)
        return record(key, ShareTargetValue(stored(target)))

    def member_tombstones(self, member_id: str) -> list[StateRecord]:
        return [
            tombstone(ShareTargetKey(self.group_id, member_id)),
            tombstone(ShareMemberKey(self.group_id, member_id)),
        ]

    # --- replay ---------------------------------------------------------------------------

    def set_member(self, member_id: str, said: ShareMemberValue) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before.said, -1)
        self.members[member_id] = ShareMember(member_id, said, assignment(said.assigned))
        self._count(said, 1)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.said, -1)

    def _count(self, said: ShareMemberValue, step: int) -> None:
        self.subscription_bytes += step * names_bytes(said.topics)
        for topic in said.topics:
            self.topic_subscribers[topic] += step
            if not self.topic_subscribers[topic]:
                del self.topic_subscribers[topic]
