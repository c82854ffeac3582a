"""A partition goes from some brokers to others: begun, completed, taken back.

    begun       replicas are those before and those added; the added ones copy as followers that
                nobody waits for, and join the in-sync set like any other follower
    completed   when all that are added are in sync: the replicas are the target
    cancelled   the replicas are those before; so it is with a move that another one replaces

Each is one write of the partition's key, and safety hangs on two rules alone:

- *Nobody leaves below the quorum.* As many as must be in sync stay in the in-sync set, and they
  have everything that is committed. So the copies of those who leave are not needed any more.
- *Whoever leaves, leaves with an epoch.* The leader epoch rises in the same write. One that comes
  back later has an empty log, and asks under the new epoch: a leader that knew how far its old copy
  went is a leader of the old epoch, and answers no more. Kafka's controller does so, too.
"""

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.model.names import NodeId
from goqueue.model.replication import Member, Move, PartitionState
from goqueue.state.replication.in_sync import gone

Replicas = tuple[NodeId, ...]


def begun(
    state: PartitionState,
    target: Replicas,
    present: Mapping[NodeId, int],
    candidates: Mapping[NodeId, int],
) -> PartitionState | None:
    """On its way to `target`, also from the middle of another move; None while that is not safe.

    `present` are registered brokers with their epochs, `candidates` those of them that may lead.
    """
    before = state.replicas if state.move is None else state.move.before
    added = tuple(node for node in target if node not in before)
    kept = _narrowed(state, (*before, *added), present, candidates)
    if kept is None:
        return None
    if target == before:
        return msgspec.structs.replace(kept, replicas=before, move=None)
    if not added and len(target) == len(before):
        # The same brokers in another order: nothing is copied, the first of them leads in peace.
        return msgspec.structs.replace(kept, replicas=target, move=None)
    move = Move(before=before, target=target)
    return msgspec.structs.replace(kept, replicas=(*before, *added), move=move)


def cancelled(
    state: PartitionState, present: Mapping[NodeId, int], candidates: Mapping[NodeId, int]
) -> PartitionState | None:
    """As it was before; None while too few of those are in sync."""
    if state.move is None:
        return state
    return begun(state, state.move.before, present, candidates)


def completed(
    state: PartitionState,
    present: Mapping[NodeId, int],
    candidates: Mapping[NodeId, int],
    *,
    preferred: NodeId | None = None,
) -> PartitionState | None:
    """With the replicas it was to have; None until all that are added are in sync, and enough.

    A leader that leaves hands over to `preferred`, or to the first of the target.
    """
    move = state.move
    if move is None:
        return state
    living = _living(state, present)
    if not all(node in living for node in move.adding):
        return None
    arrived = msgspec.structs.replace(state, move=None)
    done = _narrowed(arrived, move.target, present, candidates, preferred=preferred)
    # More replicas can ask for more in sync: nobody who writes should wait for one that is behind.
    return None if done is None or len(done.in_sync) < done.quorum else done


def is_ready(state: PartitionState, present: Mapping[NodeId, int]) -> bool:
    """Whether all that are added are in sync."""
    living = _living(state, present)
    return all(node in living for node in state.adding)


def relied_on(state: PartitionState) -> tuple[Member, ...]:
    """Who must not have restarted since a state was decided that leaves others out."""
    return state.in_sync


def _living(state: PartitionState, present: Mapping[NodeId, int]) -> set[NodeId]:
    return {member.node for member in state.in_sync} - gone(state, present)


def _narrowed(
    state: PartitionState,
    replicas: Replicas,
    present: Mapping[NodeId, int],
    candidates: Mapping[NodeId, int],
    *,
    preferred: NodeId | None = None,
) -> PartitionState | None:
    """With these replicas alone. None where nobody leads, or too few would stay in sync."""
    narrowed = msgspec.structs.replace(state, replicas=replicas)
    if not set(state.replicas).difference(replicas):
        return narrowed
    living = _living(state, present)
    in_sync = tuple(m for m in state.in_sync if m.node in replicas and m.node in living)
    # With another number of replicas another number may be enough.
    if not state.has_leader or len(in_sync) < narrowed.quorum:
        return None
    leader = state.leader if state.leader in {m.node for m in in_sync} else None
    if leader is None:
        leader = _heir(in_sync, replicas, candidates, preferred)
    if leader is None:
        return None
    return msgspec.structs.replace(
        narrowed,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        in_sync=in_sync,
        eligible=(),
        doubtful=(),
    )


def _heir(
    in_sync: Sequence[Member],
    replicas: Replicas,
    candidates: Mapping[NodeId, int],
    preferred: NodeId | None,
) -> NodeId | None:
    order = replicas if preferred is None else (preferred, *replicas)
    for node in order:
        if node in candidates and Member(node, candidates[node]) in in_sync:
            return node
    return None
