"""Who may lead after losses, and what a broker's logs are worth when it comes back."""

from uuid import UUID

import pytest

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.elections import LogEnd, elect
from goqueue.state.controller.planning import (
    Admit,
    AskLogEnds,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)
from goqueue.state.membership.identity import (
    Continuity,
    NodeIdentity,
    admitted,
    begun,
    continuity,
    harmed,
    registration,
    stopped,
)
from goqueue.state.replication.in_sync import (
    can_resign,
    joined,
    resigned,
    with_min_in_sync,
    without,
)

A, B, C = (NodeId(i) for i in range(3))
ORDERS = topic_partition("orders", 0)
FOLDER = UUID(int=1)


def member(node: NodeId) -> Member:
    return Member(node, 10 + node)


def state(*in_sync: NodeId, **fields: object) -> PartitionState:
    return PartitionState(
        **{
            "leader": A,
            "leader_epoch": 3,
            "replicas": (A, B, C),
            "in_sync": tuple(map(member, in_sync)),
            "min_in_sync": 2,
            **fields,
        }  # type: ignore[arg-type]
    )


def live(*nodes: NodeId) -> dict[NodeId, int]:
    return {node: member(node).broker_epoch for node in nodes}


def test_a_leader_that_lives_goes_on_without_the_dead() -> None:
    election = elect(state(A, B, C), live(A, B), live(A, B), {})
    assert election.state == without(state(A, B, C), {C})
    assert election.state.leader_epoch == 3


def test_the_first_replica_in_sync_that_lives_leads() -> None:
    after = elect(state(A, B, C), live(B, C), live(B, C), {}).state
    assert (after.leader, after.leader_epoch) == (B, 4)
    assert after.in_sync == (member(B), member(C))


def test_nobody_leads_while_all_who_have_everything_are_dead() -> None:
    after = elect(state(A, B), live(C), live(C), {}).state
    assert (after.leader, after.leader_epoch) == (NO_LEADER, 4)
    assert after.eligible == (member(A), member(B))


def test_an_eligible_replica_leads_when_the_in_sync_are_gone() -> None:
    alone = state(A, eligible=(member(B),))
    after = elect(alone, live(B, C), live(B, C), {}).state
    assert (after.leader, after.in_sync, after.eligible) == (B, (member(B),), (member(A),))


def test_a_restarted_leader_leads_under_a_new_epoch() -> None:
    restarted = {A: 99, B: 11, C: 12}
    after = elect(state(A, B, C), restarted, restarted, {}).state
    assert (after.leader, after.leader_epoch) == (B, 4)
    assert member(A) not in after.in_sync


def test_a_lower_minimum_forgets_the_eligible() -> None:
    alone = state(A, eligible=(member(B),))
    assert with_min_in_sync(alone, 1).eligible == ()
    assert with_min_in_sync(alone, 3).eligible == (member(B),)


def test_with_all_in_doubt_the_longest_log_leads_once_all_spoke() -> None:
    lost = state(leader=NO_LEADER, doubtful=(A, B))
    assert elect(lost, live(A, C), live(A, C), {}).state == lost
    asked = elect(lost, live(A, B, C), live(A, B, C), {})
    assert asked.ask == (member(A), member(B))
    ends = {member(A): LogEnd(3, 7), member(B): LogEnd(3, 9)}
    after = elect(lost, live(A, B, C), live(A, B, C), ends)
    assert (after.state.leader, after.state.in_sync) == (B, (member(B),))
    assert after.relies_on == (member(A), member(B))
    # Until enough are in sync again, the other one's log is as good as it was.
    assert after.state.doubtful == (A,)
    assert joined(after.state, member(C)).doubtful == ()


@pytest.mark.parametrize(
    ("is_stopped", "is_same_boot", "has_lost", "worth"),
    [
        (True, False, False, Continuity.KEPT),
        (False, True, False, Continuity.KEPT),
        (False, False, False, Continuity.ON_DISK),
        (False, False, True, Continuity.ON_DISK),
        (False, True, True, Continuity.NOTHING),
        (True, True, True, Continuity.NOTHING),
        (True, False, True, Continuity.NOTHING),
    ],
)
def test_what_a_folder_is_worth_after_a_restart(
    is_stopped: bool, is_same_boot: bool, has_lost: bool, worth: Continuity
) -> None:
    first = admitted(begun(NodeIdentity(directory=FOLDER), UUID(int=2), "boot 1"))
    known = NodeRecord(directory=FOLDER, incarnation=UUID(int=2), broker_epoch=10)
    ended = stopped(first) if is_stopped else first
    boot = "boot 1" if is_same_boot else "boot 2"
    again = begun(ended, UUID(int=3), boot, has_lost=has_lost)
    assert continuity(registration(again), known) is worth
    # A stop before it was admitted proves nothing about what was lost before.
    third = begun(stopped(again), UUID(int=4), boot)
    assert continuity(registration(third), known) is worth


def test_a_log_that_failed_is_remembered_until_the_folder_was_filled_again() -> None:
    first = harmed(admitted(begun(NodeIdentity(directory=FOLDER), UUID(int=2), "boot")))
    known = NodeRecord(directory=FOLDER, incarnation=UUID(int=2), broker_epoch=10)
    # The same process, when its session ran out.
    assert continuity(registration(first), known) is Continuity.ON_DISK
    # Being admitted anew does not mend the disk.
    assert continuity(registration(admitted(first)), known) is Continuity.ON_DISK
    again = begun(stopped(first), UUID(int=3), "boot")
    assert continuity(registration(again), known) is Continuity.ON_DISK
    filled = begun(admitted(again), UUID(int=4), "boot")
    later = NodeRecord(directory=FOLDER, incarnation=UUID(int=3), broker_epoch=20)
    assert continuity(registration(filled), later) is Continuity.KEPT


def test_who_cannot_use_its_log_leaves_what_others_have_too() -> None:
    all_in = state(A, B, C)
    assert can_resign(all_in, member(A), live(A, B, C))
    left = resigned(all_in, member(A))
    assert (left.leader, left.leader_epoch) == (NO_LEADER, all_in.leader_epoch + 1)
    assert left.in_sync == (member(B), member(C))
    follower = resigned(all_in, member(B))
    assert (follower.leader, follower.leader_epoch) == (A, all_in.leader_epoch)
    assert follower.in_sync == (member(A), member(C))
    # Nobody else is there that could lead, or it does not count anyway.
    assert not can_resign(all_in, member(A), live(A))
    assert not can_resign(follower, member(B), live(A, B, C))


def test_another_folder_and_an_older_copy_are_worth_nothing() -> None:
    copy = stopped(admitted(begun(NodeIdentity(directory=FOLDER), UUID(int=2), "boot")))
    later = NodeRecord(directory=FOLDER, incarnation=UUID(int=5), broker_epoch=10)
    restored = registration(begun(copy, UUID(int=6), "boot"))
    assert continuity(restored, later) is Continuity.NOTHING
    other = registration(begun(NodeIdentity(directory=UUID(int=9)), UUID(int=5), "boot"))
    assert continuity(other, later) is Continuity.NOTHING
    assert continuity(other, None) is Continuity.NOTHING


def view(partition: PartitionState, **brokers: tuple[int, bool]) -> ClusterView:
    """Brokers by name: their epoch now, and whether they kept what they had."""
    registered, nodes = {}, {}
    for name, (epoch, is_kept) in brokers.items():
        node = NodeId("abc".index(name))
        folder = UUID(int=50 + node)
        identity = admitted(begun(NodeIdentity(directory=folder), UUID(int=60 + node), "boot"))
        known = NodeRecord(
            directory=folder, incarnation=identity.incarnation, broker_epoch=10 + node
        )
        nodes[node] = (known, 5)
        if epoch != known.broker_epoch:
            identity = begun(identity, UUID(int=70 + node), "boot" if is_kept else "another")
        registered[node] = Registered(registration(identity), epoch)
    return ClusterView({ORDERS: Stored(partition, 80)}, registered, nodes)


def test_that_a_broker_is_cordoned_is_remembered_with_it() -> None:
    said = Registration(directory=FOLDER, trail=(FOLDER,), is_kept=True, is_cordoned=True)
    (admit,) = plan(ClusterView({}, {A: Registered(said, 90)}, {}))
    assert isinstance(admit, Admit)
    assert admit.record.is_cordoned


def test_a_broker_is_admitted_after_the_partitions_know_what_it_has() -> None:
    (change,) = plan(view(state(A, B, C), a=(10, True), b=(90, True), c=(12, True)))
    assert isinstance(change, ChangePartition)
    assert change.state.in_sync == (member(A), Member(B, 90), member(C))
    (admit,) = plan(view(change.state, a=(10, True), b=(90, True), c=(12, True)))
    assert isinstance(admit, Admit)
    assert (admit.node, admit.record.broker_epoch, admit.revision) == (B, 90, 5)


def test_lost_memory_costs_a_broker_its_places_unless_every_append_was_flushed() -> None:
    (change,) = plan(view(state(A, B, C), a=(10, True), b=(90, False), c=(12, True)))
    assert isinstance(change, ChangePartition)
    assert change.state.in_sync == (member(A), member(C))
    flushed = state(A, B, C, is_flushed=True)
    (change,) = plan(view(flushed, a=(10, True), b=(90, False), c=(12, True)))
    assert isinstance(change, ChangePartition)
    assert Member(B, 90) in change.state.in_sync


def test_logs_are_asked_for_their_ends_when_nobody_is_sure() -> None:
    lost = state(leader=NO_LEADER, doubtful=(A, B))
    (ask,) = plan(view(lost, a=(10, True), b=(11, True)))
    assert ask == AskLogEnds(ORDERS, (member(A), member(B)))
