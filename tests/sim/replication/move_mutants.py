"""Faults that somebody could build into moves one day; found in worlds where partitions move."""

from typing import Any

import msgspec
import pytest

from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller import moving as controlled
from goqueue.state.replication import moving
from tests.sim.replication.mutants import Mutation


def leaves_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """Whoever leaves and comes back is taken for the one that it was."""
    original = moving._narrowed

    def narrowed(state: PartitionState, *others: Any, **more: Any) -> PartitionState | None:
        found = original(state, *others, **more)
        if found is None or found.leader != state.leader:
            return found
        return msgspec.structs.replace(found, leader_epoch=state.leader_epoch)

    patch.setattr(moving, "_narrowed", narrowed)


def ends_before_copies_are_there(patch: pytest.MonkeyPatch) -> None:
    """The target counts as in sync, whatever it has."""
    original = moving.completed

    def completed(state: PartitionState, present: Any, candidates: Any, **more: Any) -> Any:
        if state.move is None:
            return original(state, present, candidates, **more)
        members = tuple(
            Member(node, present[node]) for node in state.move.target if node in present
        )
        filled = msgspec.structs.replace(state, in_sync=(*state.in_sync, *members))
        return original(filled, present, candidates, **more)

    patch.setattr(controlled, "completed", completed)
    patch.setattr(controlled, "is_ready", lambda state, present: True)


def leaves_below_the_quorum(patch: pytest.MonkeyPatch) -> None:
    """One that stays is enough, however many must have what is committed."""
    original = moving._narrowed

    def narrowed(state: PartitionState, *others: Any, **more: Any) -> PartitionState | None:
        found = original(msgspec.structs.replace(state, min_in_sync=1), *others, **more)
        return found and msgspec.structs.replace(found, min_in_sync=state.min_in_sync)

    patch.setattr(moving, "_narrowed", narrowed)


MOVE_MUTANTS: tuple[Mutation, ...] = (
    leaves_without_an_epoch,
    ends_before_copies_are_there,
    leaves_below_the_quorum,
)
