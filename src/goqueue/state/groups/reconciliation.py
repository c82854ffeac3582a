"""One step of one member from what it has to what it should have (KIP-848, KIP-1071).

Partitions to give up are named first; only when the member says it no longer owns them does it move
to the new epoch, and a new partition is handed over only when nobody has it. Partitions that stay
are never touched. Members of streams groups have tasks in the place of partitions.
"""

from collections.abc import Callable
from dataclasses import replace

from goqueue.model.groups.assignment import (
    K,
    Sets,
    assignment,
    common,
    overlaps,
    restricted,
    union,
    without,
)
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.states import MEMBER_MOVES, MemberState

Taken = Callable[[K, int], bool]


def reconcile(
    current: CurrentAssignment[K],
    *,
    target_epoch: int,
    target: Sets[K],
    subscribed: frozenset[K],
    taken: Taken[K],
    owned: Sets[K] | None,
    subscription_changed: bool,
) -> CurrentAssignment[K]:
    """`owned` is what the member says it has, None when it does not say. `taken` tells whether
    another member has a partition or has not yet confirmed to have given it up."""
    has_arrived = current.state is MemberState.STABLE and current.epoch == target_epoch
    must_give_up = current.state is MemberState.UNREVOKED and _holds(
        owned, current.pending_revocation
    )
    if has_arrived or must_give_up:
        if not subscription_changed:
            return current
        following = _drop_unsubscribed(current, subscribed, owned)
    else:
        following = _advance(current, target_epoch, restricted(target, subscribed), taken, owned)
    assert following.state in MEMBER_MOVES[current.state], f"{current} to {following}"
    return following


def _holds(owned: Sets[K] | None, partitions: Sets[K]) -> bool:
    return owned is None or overlaps(owned, partitions)


def _drop_unsubscribed(
    current: CurrentAssignment[K], subscribed: frozenset[K], owned: Sets[K] | None
) -> CurrentAssignment[K]:
    """The target is as before, but the member left topics: take those away at once."""
    kept = restricted(current.assigned, subscribed)
    dropped = without(current.assigned, kept)
    if not dropped:
        return current
    pending = union(current.pending_revocation, dropped)
    if _holds(owned, pending):
        return replace(
            current, state=MemberState.UNREVOKED, assigned=kept, pending_revocation=pending
        )
    return replace(current, assigned=kept)


def _advance(
    current: CurrentAssignment[K],
    target_epoch: int,
    target: Sets[K],
    taken: Taken[K],
    owned: Sets[K] | None,
) -> CurrentAssignment[K]:
    kept = common(current.assigned, target)
    to_revoke = without(current.assigned, kept)
    if to_revoke and _holds(owned, to_revoke):
        return replace(
            current, state=MemberState.UNREVOKED, assigned=kept, pending_revocation=to_revoke
        )
    wanted = without(target, kept)
    free = assignment((t, (p for p in numbers if not taken(t, p))) for t, numbers in wanted.items())
    unreleased = free != wanted
    return CurrentAssignment(
        epoch=target_epoch,
        previous_epoch=current.previous_epoch if target_epoch == current.epoch else current.epoch,
        state=MemberState.UNRELEASED if unreleased else MemberState.STABLE,
        assigned=union(kept, free),
    )
