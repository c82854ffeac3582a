"""Elections that somebody asks for: the preferred leader, or one that may lack messages."""

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.elections import in_sync_in_all
from goqueue.state.controller.planning import ChangePartition, ClusterView, Standing
from goqueue.state.replication.in_sync import led_by, taken_over_by


class Demand(NamedTuple):
    """What an election that was asked for comes to: a change, or an answer without one."""

    answer: ElectionAnswer
    change: ChangePartition | None = None


def demanded(view: ClusterView, partition: TopicPartition, kind: ElectionKind) -> Demand:
    return _demanded(view, partition, kind, view.standing())


def _demanded(
    view: ClusterView, partition: TopicPartition, kind: ElectionKind, standing: Standing
) -> Demand:
    stored = view.partitions.get(partition)
    if stored is None:
        return Demand(ElectionAnswer.UNKNOWN_PARTITION)
    candidates, present = standing
    elected = (
        _preferred(stored.state, candidates, present)
        if kind is ElectionKind.PREFERRED
        else _unclean(stored.state, candidates)
    )
    if isinstance(elected, ElectionAnswer):
        return Demand(elected)
    leader = Member(elected.leader, candidates[elected.leader])
    change = ChangePartition(partition, elected, stored.revision, (leader,))
    return Demand(ElectionAnswer.ELECTED, change)


def misplaced(view: ClusterView) -> list[ChangePartition]:
    """Partitions whose first replica does not lead, and lacks nothing of them or of their
    companions."""
    found = []
    states = {partition: stored.state for partition, stored in view.partitions.items()}
    in_all = in_sync_in_all(states, view.owners)
    # The same for all: with a hundred brokers, it takes longer than a demand.
    standing = view.standing()
    for partition, state in states.items():
        if not state.has_leader or state.leader == state.replicas[0]:
            continue
        if partition in view.owners:
            # It goes where the partition is led that it belongs to.
            continue
        change = _demanded(view, partition, ElectionKind.PREFERRED, standing).change
        whole = in_all.get(partition)
        if change is not None and (whole is None or whole.issuperset(change.relies_on)):
            found.append(change)
    return found


def _preferred(
    state: PartitionState, candidates: Mapping[NodeId, int], present: Mapping[NodeId, int]
) -> PartitionState | ElectionAnswer:
    first = state.replicas[0]
    if state.leader == first:
        return ElectionAnswer.NOT_NEEDED
    member = Member(first, candidates.get(first, -1))
    if member not in state.in_sync:
        return ElectionAnswer.PREFERRED_NOT_AVAILABLE
    return led_by(state, member, present)


def _unclean(
    state: PartitionState, candidates: Mapping[NodeId, int]
) -> PartitionState | ElectionAnswer:
    """An administrator gives up what only others have; with a leader there is no need to."""
    if state.has_leader:
        return ElectionAnswer.NOT_NEEDED
    # Those that had the most at the end come first.
    likely = [*(m.node for m in (*state.in_sync, *state.eligible)), *state.doubtful]
    for node in (*likely, *state.replicas):
        if node in candidates:
            return taken_over_by(state, Member(node, candidates[node]))
    return ElectionAnswer.ELIGIBLE_NOT_AVAILABLE
