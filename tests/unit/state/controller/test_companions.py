"""Companions follow the leaders of the partitions that they belong to."""

from uuid import UUID

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.companions import following_owners
from goqueue.state.controller.planning import ChangePartition, ClusterView, Registered, Stored

OWNER, COMPANION = topic_partition("t", 0), topic_partition("c", 0)
ID = UUID(int=1)


def view(
    *, owner: int, companion: int, in_sync: tuple[int, ...], leaving: tuple[int, ...] = ()
) -> ClusterView:
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
    )


def moves(seen: ClusterView) -> list[ChangePartition]:
    return list(following_owners(seen, {COMPANION: OWNER}))


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
