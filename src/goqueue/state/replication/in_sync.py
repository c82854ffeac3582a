"""How the in-sync set changes. Every function returns the state that is to be compared and set.

One rule runs through all of them: once the in-sync set is smaller than the quorum nothing is
committed any more, so whoever leaves from then on stays eligible; and once it is large enough
again, commits go on without the eligible, and they are forgotten in the same write.
"""

from collections.abc import Collection, Mapping

import msgspec

from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import Member, PartitionState


def without(state: PartitionState, nodes: Collection[NodeId]) -> PartitionState:
    """Replicas that fell behind or died leave; they did commit everything up to now."""
    stay = tuple(member for member in state.in_sync if member.node not in nodes)
    gone = tuple(member for member in state.in_sync if member.node in nodes)
    return _settled(state, stay, (*state.eligible, *gone))


def joined(state: PartitionState, member: Member) -> PartitionState:
    """A replica that caught up; it takes the place of what it was before a restart."""
    others = tuple(other for other in state.in_sync if other.node != member.node)
    rest = tuple(other for other in state.eligible if other.node != member.node)
    return _settled(state, (*others, member), rest)


def continued(state: PartitionState, member: Member) -> PartitionState:
    """A restarted broker that still has what it had keeps its places under its new epoch."""
    if all(other.node != member.node for other in (*state.in_sync, *state.eligible)):
        return state
    return msgspec.structs.replace(
        state,
        in_sync=_renewed(state.in_sync, member),
        eligible=_renewed(state.eligible, member),
    )


def forgotten(state: PartitionState, node: NodeId) -> PartitionState:
    """A restarted broker that may have lost what was committed leaves both sets.

    Where that leaves too few, its log may still be the best there is, should the others be lost.
    """
    in_sync = tuple(member for member in state.in_sync if member.node != node)
    eligible = tuple(member for member in state.eligible if member.node != node)
    if len(in_sync) + len(eligible) == len(state.in_sync) + len(state.eligible):
        return state
    doubtful = (*(other for other in state.doubtful if other != node), node)
    return msgspec.structs.replace(
        state,
        in_sync=in_sync,
        eligible=eligible,
        doubtful=() if len(in_sync) >= state.quorum else doubtful,
    )


def with_min_in_sync(state: PartitionState, min_in_sync: int) -> PartitionState:
    """A lower minimum lets commits go on without the eligible: they are forgotten in this write."""
    changed = msgspec.structs.replace(state, min_in_sync=min_in_sync)
    return _settled(changed, changed.in_sync, changed.eligible)


def taken_over_by(state: PartitionState, leader: Member) -> PartitionState:
    """A leader whose log becomes the truth, whatever others had.

    Until enough are in sync again nothing is committed, and the logs of the others that were in
    doubt are as good as they were: should this one be lost as well, they are asked again.
    """
    led = msgspec.structs.replace(
        state,
        leader=leader.node,
        leader_epoch=state.leader_epoch + 1,
        doubtful=tuple(node for node in state.doubtful if node != leader.node),
    )
    return _settled(led, (leader,), ())


def led_by(state: PartitionState, leader: Member, present: Mapping[NodeId, int]) -> PartitionState:
    """A new leader under a new epoch; the dead leave the in-sync set in the same write."""
    living = without(state, gone(state, present))
    if leader not in living.in_sync:
        living = joined(living, leader)
    return msgspec.structs.replace(living, leader=leader.node, leader_epoch=state.leader_epoch + 1)


def gone(state: PartitionState, present: Mapping[NodeId, int]) -> set[NodeId]:
    """Members of the in-sync set that are not registered under their epoch any more."""
    return {m.node for m in state.in_sync if present.get(m.node) != m.broker_epoch}


def leaderless(state: PartitionState, present: Mapping[NodeId, int]) -> PartitionState:
    """Nobody may lead: the epoch rises all the same, so that the old leader's word ends."""
    return msgspec.structs.replace(
        without(state, gone(state, present)),
        leader=NO_LEADER,
        leader_epoch=state.leader_epoch + 1,
    )


def can_resign(state: PartitionState, member: Member, present: Mapping[NodeId, int]) -> bool:
    """Whether it counts here, and another one that is there has everything committed as well."""
    counting = (*state.in_sync, *state.eligible)
    return member in counting and any(
        other.node != member.node and present.get(other.node) == other.broker_epoch
        for other in counting
    )


def resigned(state: PartitionState, member: Member) -> PartitionState:
    """A replica that cannot use its log says so itself: what is in that counts for nothing until
    it was copied again. If it leads, its word ends with the epoch."""
    return _not_led_by(member, forgotten(state, member.node))


def can_stand_aside(state: PartitionState, member: Member, present: Mapping[NodeId, int]) -> bool:
    """Whether it is in sync, and enough others that are there go on without it."""
    others = [m for m in state.in_sync if m != member and present.get(m.node) == m.broker_epoch]
    return member in state.in_sync and len(others) >= state.quorum


def stood_aside(state: PartitionState, member: Member) -> PartitionState:
    """A replica whose log is whole and takes nothing more for now would only hold up the others."""
    return _not_led_by(member, without(state, {member.node}))


def _not_led_by(member: Member, state: PartitionState) -> PartitionState:
    if state.leader != member.node:
        return state
    return msgspec.structs.replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)


def _settled(
    state: PartitionState, in_sync: tuple[Member, ...], eligible: tuple[Member, ...]
) -> PartitionState:
    if len(in_sync) >= state.quorum:
        return msgspec.structs.replace(state, in_sync=in_sync, eligible=(), doubtful=())
    return msgspec.structs.replace(state, in_sync=in_sync, eligible=eligible)


def _renewed(members: tuple[Member, ...], member: Member) -> tuple[Member, ...]:
    return tuple(member if other.node == member.node else other for other in members)
