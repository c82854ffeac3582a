"""Moves that go on by themselves: those that are ready end, and companions go with their owners.

Somebody begins a move of a partition (`state/replication/moving.py`). From then on the controller
does the rest. What belongs to the partition (`model/companions.py`) must be where it is led: so it
gets the same target, and both end together, when all copies that are added are in sync.
"""

from collections.abc import Iterator, Mapping, Sequence

from goqueue.model.names import NodeId, TopicPartition
from goqueue.state.controller.planning import ChangePartition, ClusterView, Stored
from goqueue.state.replication.moving import begun, completed, is_ready, relied_on


def moves_going_on(
    view: ClusterView,
    owners: Mapping[TopicPartition, TopicPartition],
    *,
    are_paused: bool = False,
) -> Iterator[ChangePartition]:
    """What is to change now. `owners`: what each companion belongs to. `are_paused`: nothing ends,
    but what was taken back is taken back with all that belongs to it."""
    candidates, present = view.standing()
    belongings: dict[TopicPartition, list[TopicPartition]] = {}
    for companion, owner in owners.items():
        if companion in view.partitions and owner in view.partitions:
            belongings.setdefault(owner, []).append(companion)
    following = {companion for companions in belongings.values() for companion in companions}
    for partition, stored in view.partitions.items():
        if partition in following:
            continue
        companions = belongings.get(partition, [])
        due = list(_following(view, stored, companions, present, candidates))
        yield from due
        if not due and not are_paused:
            yield from _ending(view, partition, companions, present, candidates)


def _following(
    view: ClusterView,
    owner: Stored,
    companions: Sequence[TopicPartition],
    present: Mapping[NodeId, int],
    candidates: Mapping[NodeId, int],
) -> Iterator[ChangePartition]:
    """Companions that are not on their way to where their owner is, or goes."""
    for companion in companions:
        stored = view.partitions[companion]
        if stored.state.wanted == owner.state.wanted:
            continue
        state = begun(stored.state, owner.state.wanted, present, candidates)
        if state is not None and state != stored.state:
            yield ChangePartition(companion, state, stored.revision, relied_on(state))


def _ending(
    view: ClusterView,
    owner: TopicPartition,
    companions: Sequence[TopicPartition],
    present: Mapping[NodeId, int],
    candidates: Mapping[NodeId, int],
) -> Iterator[ChangePartition]:
    """A partition and what belongs to it, once all of them are ready."""
    together = [(name, view.partitions[name]) for name in (owner, *companions)]
    moving = [(name, stored) for name, stored in together if stored.state.move is not None]
    if not moving or not all(is_ready(stored.state, present) for _, stored in moving):
        return
    wanted = view.partitions[owner].state.wanted
    if any(stored.state.wanted != wanted for _, stored in together):
        # One could not be begun yet.
        return
    ended = completed(view.partitions[owner].state, present, candidates)
    if ended is None:
        return
    for name, stored in moving:
        state = completed(stored.state, present, candidates, preferred=ended.leader)
        if state is not None:
            yield ChangePartition(name, state, stored.revision, relied_on(state))
