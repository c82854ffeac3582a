"""What a member of a consumer or streams group has, as far as it has been told."""

from dataclasses import dataclass, field
from typing import Generic

from goqueue.model.groups.assignment import K, Sets, assignment, stored
from goqueue.state.groups.records import CurrentMemberValue
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
