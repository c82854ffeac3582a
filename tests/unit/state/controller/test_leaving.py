"""A broker that is about to stop hands over what it leads, and elections that are asked for."""

from dataclasses import replace
from uuid import UUID

import pytest

from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.balancing import demanded, misplaced
from goqueue.state.controller.elections import elect
from goqueue.state.controller.planning import (
    Admit,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)

A, B, C = (NodeId(i) for i in range(3))
ORDERS = topic_partition("orders", 0)
FOLDER = UUID(int=1)


def member(node: NodeId) -> Member:
    return Member(node, 10 + node)


def state(
    *in_sync: NodeId, leader: NodeId = A, doubtful: tuple[NodeId, ...] = ()
) -> PartitionState:
    return PartitionState(
        leader=leader,
        leader_epoch=3,
        replicas=(A, B, C),
        in_sync=tuple(map(member, in_sync)),
        doubtful=doubtful,
        min_in_sync=2,
    )


def live(*nodes: NodeId) -> dict[NodeId, int]:
    return {node: member(node).broker_epoch for node in nodes}


def view(
    partition: PartitionState, *nodes: NodeId, draining: tuple[NodeId, ...] = ()
) -> ClusterView:
    return ClusterView(
        {ORDERS: Stored(partition, 5)},
        {
            node: Registered(
                Registration(directory=FOLDER, trail=(FOLDER,), is_kept=True), 10 + node
            )
            for node in nodes
        },
        {
            node: (
                NodeRecord(
                    directory=FOLDER,
                    incarnation=FOLDER,
                    broker_epoch=10 + node,
                    is_draining=node in draining,
                ),
                1,
            )
            for node in nodes
        },
    )


def test_a_leader_that_leaves_is_followed_by_one_in_sync_and_is_out_of_it_at_once() -> None:
    election = elect(state(A, C, B), live(A, B, C), live(A, B, C), {}, leaving={A})
    assert election.state.leader == B
    assert election.state.leader_epoch == 4
    assert election.state.in_sync == (member(C), member(B))
    assert election.relies_on == (member(B),)


def test_a_follower_that_leaves_is_waited_for_no_longer() -> None:
    election = elect(state(A, B, C), live(A, B, C), live(A, B, C), {}, leaving={C})
    assert election.state.leader == A
    assert election.state.leader_epoch == 3
    assert election.state.in_sync == (member(A), member(B))


def test_who_leaves_below_the_minimum_stays_eligible() -> None:
    election = elect(state(A, B), live(A, B), live(A, B), {}, leaving={A})
    assert election.state.leader == B
    assert election.state.in_sync == (member(B),)
    assert election.state.eligible == (member(A),)


@pytest.mark.parametrize("leaving", [{A}, {A, B}])
def test_who_has_nobody_to_hand_over_to_leads_on(leaving: set[NodeId]) -> None:
    election = elect(state(A, leader=A), live(A, B), live(A, B), {}, leaving=leaving)
    assert election.state == state(A, leader=A)


def test_of_the_dead_leaders_heirs_those_that_stay_come_first() -> None:
    election = elect(state(A, B, C), live(B, C), live(B, C), {}, leaving={B})
    assert election.state.leader == C


def test_the_plan_hands_over_what_a_draining_broker_leads() -> None:
    (change,) = plan(view(state(A, B, C), A, B, C, draining=(A,)))
    assert isinstance(change, ChangePartition)
    assert change.state.leader == B


def test_the_preferred_leader_gets_its_partition_back() -> None:
    (change,) = misplaced(view(state(A, B, C, leader=B), A, B, C))
    assert change.state.leader == A
    assert change.state.leader_epoch == 4
    assert change.relies_on == (member(A),)


@pytest.mark.parametrize(
    ("partition", "there", "answer"),
    [
        (state(A, B, C), (A, B, C), ElectionAnswer.NOT_NEEDED),
        (state(B, C, leader=B), (A, B, C), ElectionAnswer.PREFERRED_NOT_AVAILABLE),
        (state(A, B, C, leader=B), (B, C), ElectionAnswer.PREFERRED_NOT_AVAILABLE),
    ],
)
def test_a_preferred_election_that_cannot_be(
    partition: PartitionState, there: tuple[NodeId, ...], answer: ElectionAnswer
) -> None:
    demand = demanded(view(partition, *there), ORDERS, ElectionKind.PREFERRED)
    assert demand == (answer, None)


def test_a_draining_broker_gets_nothing_back() -> None:
    assert misplaced(view(state(A, B, C, leader=B), A, B, C, draining=(A,))) == []


def test_an_unclean_election_takes_who_is_there_and_had_the_most() -> None:
    lost = state(leader=NO_LEADER, doubtful=(C,))
    demand = demanded(view(lost, B, C), ORDERS, ElectionKind.UNCLEAN)
    assert demand.answer is ElectionAnswer.ELECTED
    assert demand.change is not None
    assert demand.change.state.leader == C
    assert demand.change.state.in_sync == (member(C),)


@pytest.mark.parametrize(
    ("partition", "there", "answer"),
    [
        (state(A, B), (A, B, C), ElectionAnswer.NOT_NEEDED),
        (state(A, leader=NO_LEADER), (), ElectionAnswer.ELIGIBLE_NOT_AVAILABLE),
    ],
)
def test_an_unclean_election_that_cannot_be(
    partition: PartitionState, there: tuple[NodeId, ...], answer: ElectionAnswer
) -> None:
    demand = demanded(view(partition, *there), ORDERS, ElectionKind.UNCLEAN)
    assert demand == (answer, None)


def test_an_election_of_an_unknown_partition() -> None:
    demand = demanded(view(state(A)), topic_partition("none", 0), ElectionKind.UNCLEAN)
    assert demand == (ElectionAnswer.UNKNOWN_PARTITION, None)


def test_a_broker_of_an_earlier_release_is_not_admitted_where_the_cluster_needs_more() -> None:
    """One that lost its session while the others were upgraded registers again without a look at
    the cluster's level."""
    here = view(state(A), A, B)
    arriving = replace(here, nodes={A: here.nodes[A]})

    def admitted(seen: ClusterView) -> list[NodeId]:
        return [action.node for action in plan(seen) if isinstance(action, Admit)]

    assert admitted(arriving) == [B]
    assert admitted(replace(arriving, feature_level=2)) == []
