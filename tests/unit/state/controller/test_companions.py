"""Companions follow the leaders of the partitions that they belong to."""

from collections.abc import Iterable
from uuid import UUID

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId, TopicPartition, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.balancing import misplaced
from goqueue.state.controller.companions import following_owners
from goqueue.state.controller.planning import (
    Action,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)

OWNER, COMPANION = topic_partition("t", 0), topic_partition("c", 0)
ID = UUID(int=1)


def view(
    *,
    owner: int,
    companion: int,
    in_sync: tuple[int, ...],
    leaving: tuple[int, ...] = (),
    dead: tuple[int, ...] = (),
) -> ClusterView:
    """`in_sync` is of the companion; the partition has all three."""
    nodes = [NodeId(number) for number in (1, 2, 3)]

    def state(leader: int, members: tuple[int, ...]) -> PartitionState:
        return PartitionState(
            leader=NodeId(leader),
            leader_epoch=5,
            replicas=tuple(nodes),
            in_sync=tuple(Member(NodeId(number), number) for number in members),
        )

    return ClusterView(
        {
            OWNER: Stored(state(owner, (1, 2, 3)), 10),
            COMPANION: Stored(state(companion, in_sync), 11),
        },
        {
            node: Registered(Registration(directory=ID, trail=(ID,), is_kept=True), int(node))
            for node in nodes
            if node not in dead
        },
        {
            node: (
                NodeRecord(
                    directory=ID,
                    incarnation=ID,
                    broker_epoch=int(node),
                    is_draining=node in leaving,
                ),
                1,
            )
            for node in nodes
        },
        owners={COMPANION: OWNER},
    )


def moves(seen: ClusterView) -> list[ChangePartition]:
    return list(following_owners(seen))


def leaders(actions: Iterable[Action]) -> dict[TopicPartition, int]:
    return {
        action.partition: action.state.leader
        for action in actions
        if isinstance(action, ChangePartition)
    }


def test_a_companion_goes_where_its_partition_is_led() -> None:
    [change] = moves(view(owner=2, companion=1, in_sync=(1, 2)))
    assert (change.partition, change.revision) == (COMPANION, 11)
    assert (change.state.leader, change.state.leader_epoch) == (2, 6)
    assert change.relies_on == (Member(NodeId(2), 2),)


def test_a_companion_stays_where_it_is_right_or_cannot_go() -> None:
    assert moves(view(owner=1, companion=1, in_sync=(1, 2))) == []
    # It does not have everything there yet.
    assert moves(view(owner=3, companion=1, in_sync=(1, 2))) == []
    # Nobody leads the one or the other, or the leader is about to go.
    assert moves(view(owner=NO_LEADER, companion=1, in_sync=(1, 2))) == []
    assert moves(view(owner=2, companion=NO_LEADER, in_sync=(1, 2))) == []
    assert moves(view(owner=2, companion=1, in_sync=(1, 2), leaving=(2,))) == []


def test_one_broker_is_elected_for_both_where_one_has_everything_of_both() -> None:
    # Alone, the partition would go to 2, which lacks something of the companion.
    both = plan(view(owner=1, companion=1, in_sync=(1, 3), dead=(1,)))
    assert leaders(both) == {OWNER: 3, COMPANION: 3}
    leaves = plan(view(owner=1, companion=1, in_sync=(1, 3), leaving=(1,)))
    assert leaders(leaves) == {OWNER: 3, COMPANION: 3}


def test_without_such_a_broker_both_are_led_all_the_same() -> None:
    apart = plan(view(owner=1, companion=2, in_sync=(2,), dead=(2,)))
    assert leaders(apart) == {OWNER: 1, COMPANION: NO_LEADER}
    alone = plan(view(owner=1, companion=1, in_sync=(1,), dead=(1,)))
    assert leaders(alone) == {OWNER: 2, COMPANION: NO_LEADER}


def test_a_partition_goes_back_to_its_first_replica_once_its_companion_can() -> None:
    assert misplaced(view(owner=2, companion=2, in_sync=(2, 3))) == []
    assert leaders(misplaced(view(owner=2, companion=2, in_sync=(1, 2)))) == {OWNER: 1}
