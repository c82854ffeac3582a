"""Who leads one partition: from the in-sync set, else from the eligible, else nobody yet."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.replication.in_sync import gone, leaderless, led_by, taken_over_by, without


class LogEnd(NamedTuple):
    """How far a log goes; the later epoch counts first."""

    last_epoch: int
    end_offset: int


class Election(NamedTuple):
    """The state to set. `relies_on` must not have restarted since; `ask` must tell the ends of
    their logs before anyone can lead."""

    state: PartitionState
    relies_on: tuple[Member, ...] = ()
    ask: tuple[Member, ...] = ()


def elect(
    state: PartitionState,
    present: Mapping[NodeId, int],
    admitted: Mapping[NodeId, int],
    log_ends: Mapping[Member, LogEnd],
    leaving: Collection[NodeId] = (),
    favoured: Collection[Member] = (),
) -> Election:
    """`present` are registered brokers with their epochs, `admitted` those of them that may lead.

    `log_ends` is what they said when they were asked. `leaving` are about to stop: they lead only
    where nobody else can. `favoured` go before others that could lead as well.
    """
    if not leaving and _is_settled(state, admitted):
        return Election(state)
    dead = gone(state, present)
    candidates = [Member(node, admitted[node]) for node in state.replicas if node in admitted]
    if leaving or favoured:
        candidates.sort(key=lambda one: (one.node in leaving, one not in favoured))
    if state.has_leader and state.leader not in dead and _is_admitted(state, admitted):
        return _kept_or_handed_over(state, present, candidates, dead, leaving)
    for members in (state.in_sync, state.eligible):
        for candidate in candidates:
            if candidate in members:
                return Election(led_by(state, candidate, present), (candidate,))
    settled = leaderless(state, present) if state.has_leader or dead else state
    if state.in_sync or state.eligible or not state.doubtful:
        return Election(settled)
    return _longest_log(settled, candidates, log_ends)


def in_sync_in_all(
    states: Mapping[TopicPartition, PartitionState],
    owners: Mapping[TopicPartition, TopicPartition],
) -> dict[TopicPartition, set[Member]]:
    """Who has everything of a partition and of all that belongs to it, by the partition.

    One of these can lead them all; they are elected one by one, and should not part ways.
    `owners`: which partition each companion belongs to.
    """
    found: dict[TopicPartition, set[Member]] = {}
    for companion, owner in owners.items():
        if companion in states and owner in states:
            members = found.setdefault(owner, set(states[owner].in_sync))
            members.intersection_update(states[companion].in_sync)
    return found


def _kept_or_handed_over(
    state: PartitionState,
    present: Mapping[NodeId, int],
    candidates: list[Member],
    dead: set[NodeId],
    leaving: Collection[NodeId],
) -> Election:
    """The leader stays, unless it leaves and another one is in sync. Others that leave go first:
    nobody should wait for them."""
    heirs = [m for m in candidates if m in state.in_sync and m.node not in leaving]
    if state.leader in leaving and heirs:
        return Election(without(led_by(state, heirs[0], present), leaving), (heirs[0],))
    away = dead.union(m.node for m in state.in_sync if m.node in leaving and m.node != state.leader)
    return Election(without(state, away) if away else state)


def _is_settled(state: PartitionState, admitted: Mapping[NodeId, int]) -> bool:
    """Whether one of the in-sync set leads, and all of it is there as it was: so it is with nearly
    all partitions, whatever happened to others."""
    is_led = False
    for node, broker_epoch in state.in_sync:
        if admitted.get(node) != broker_epoch:
            return False
        if node == state.leader:
            is_led = True
    return is_led


def _is_admitted(state: PartitionState, admitted: Mapping[NodeId, int]) -> bool:
    """Whether the leader is the broker that was elected, and not the same node restarted."""
    return Member(state.leader, admitted.get(state.leader, -1)) in state.in_sync


def _longest_log(
    state: PartitionState, candidates: list[Member], log_ends: Mapping[Member, LogEnd]
) -> Election:
    """Everyone who had all that was committed lost some of it. With all of them back, the
    longest log holds everything that is left; with one missing it might be the missing one's.

    Others have no say, however long their logs: the last record of a leader that was deposed can
    be of a later epoch than anything that was committed after it.
    """
    doubtful = tuple(member for member in candidates if member.node in state.doubtful)
    if len(doubtful) < len(state.doubtful):
        return Election(state)
    if any(member not in log_ends for member in doubtful):
        return Election(state, ask=doubtful)
    best = max(doubtful, key=lambda member: log_ends[member])
    return Election(taken_over_by(state, best), doubtful)
