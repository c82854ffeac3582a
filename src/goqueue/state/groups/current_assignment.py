"""What a member of a consumer or streams group has, as far as it has been told."""

from dataclasses import dataclass, field
from typing import Generic

from goqueue.model.groups.assignment import K, Sets, assignment, is_subset, stored
from goqueue.model.groups.errors import GroupError
from goqueue.state.groups.records import CurrentMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.states import MemberState


@dataclass(frozen=True, slots=True)
class CurrentAssignment(Generic[K]):
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Sets[K] = field(default_factory=dict)
    pending_revocation: Sets[K] = field(default_factory=dict)

    def as_value(self) -> CurrentMemberValue[K]:
        return CurrentMemberValue(
            epoch=self.epoch,
            previous_epoch=self.previous_epoch,
            state=self.state,
            assigned=stored(self.assigned),
            pending_revocation=stored(self.pending_revocation),
        )

    @classmethod
    def from_value(cls, value: CurrentMemberValue[K]) -> "CurrentAssignment[K]":
        return cls(
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=MemberState(value.state),
            assigned=assignment(value.assigned),
            pending_revocation=assignment(value.pending_revocation),
        )

    def check_epoch(self, received: int, owned: Sets[K] | None, *, of: str) -> None:
        """The epoch before is fine too, from who has no more than it was given since: the answer
        that raised it may have been lost. `of`: what members own, partitions or tasks."""
        if received == self.epoch:
            return
        if (
            received == self.previous_epoch
            and received < self.epoch
            and owned is not None
            and is_subset(owned, self.assigned)
        ):
            return
        raise Refused(
            GroupError.FENCED_MEMBER_EPOCH,
            f"member epoch {received} is not the current one, {self.epoch}; give up all {of} and "
            "join again",
        )
