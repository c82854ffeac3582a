"""Moves that go on by themselves: they end when they are ready, with what belongs to them."""

from uuid import UUID

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.moving import moves_going_on
from goqueue.state.controller.planning import ChangePartition, ClusterView, Registered, Stored
from goqueue.state.replication.in_sync import joined
from goqueue.state.replication.moving import begun, cancelled

OWNER, COMPANION = topic_partition("t", 0), topic_partition("c", 0)
ID = UUID(int=1)
NODES = [NodeId(number) for number in (1, 2, 3, 4)]
EPOCHS = {node: int(node) for node in NODES}
BEFORE, TARGET = tuple(NODES[:3]), (NodeId(4), NodeId(2), NodeId(3))
FOUR = Member(NodeId(4), 4)


def settled() -> PartitionState:
    return PartitionState(
        leader=NodeId(1),
        leader_epoch=5,
        replicas=BEFORE,
        in_sync=tuple(Member(node, EPOCHS[node]) for node in BEFORE),
        min_in_sync=2,
    )


def on_its_way() -> PartitionState:
    state = begun(settled(), TARGET, EPOCHS, EPOCHS)
    assert state is not None
    return state


def arrived() -> PartitionState:
    return joined(on_its_way(), FOUR)


def going_on(
    owner: PartitionState, companion: PartitionState | None, *, are_paused: bool = False
) -> list[ChangePartition]:
    partitions = {OWNER: Stored(owner, 10)}
    if companion is not None:
        partitions[COMPANION] = Stored(companion, 11)
    view = ClusterView(
        partitions,
        {
            node: Registered(Registration(directory=ID, trail=(ID,), is_kept=True), int(node))
            for node in NODES
        },
        {
            node: (NodeRecord(directory=ID, incarnation=ID, broker_epoch=int(node)), 1)
            for node in NODES
        },
    )
    owners = {} if companion is None else {COMPANION: OWNER}
    return list(moves_going_on(view, owners, are_paused=are_paused))


def test_nothing_is_to_do_while_copies_are_made() -> None:
    assert going_on(settled(), settled()) == []
    assert going_on(on_its_way(), on_its_way()) == []


def test_a_move_ends() -> None:
    [change] = going_on(arrived(), None)
    assert (change.partition, change.revision) == (OWNER, 10)
    assert (change.state.replicas, change.state.leader) == (TARGET, 4)
    assert set(change.relies_on) == set(change.state.in_sync)


def test_what_belongs_to_a_partition_goes_with_it() -> None:
    [change] = going_on(on_its_way(), settled())
    assert (change.partition, change.state.wanted) == (COMPANION, TARGET)
    # Also if that is late: the partition waits.
    [change] = going_on(arrived(), settled())
    assert (change.partition, change.state.wanted) == (COMPANION, TARGET)


def test_both_end_together() -> None:
    assert going_on(arrived(), on_its_way()) == []
    assert going_on(on_its_way(), arrived()) == []
    changes = going_on(arrived(), arrived())
    assert [change.partition for change in changes] == [OWNER, COMPANION]
    assert {change.state.leader for change in changes} == {4}
    # The second was refused, and comes later.
    [first, second] = changes
    [again] = going_on(first.state, arrived())
    assert again.state == second.state


def test_what_belongs_to_a_partition_comes_back_with_it() -> None:
    back = cancelled(arrived(), EPOCHS, EPOCHS)
    assert back is not None
    [change] = going_on(back, arrived())
    assert (change.partition, change.state.replicas, change.state.move) == (COMPANION, BEFORE, None)
    assert going_on(back, change.state) == []


def test_in_a_pause_nothing_ends_and_what_is_taken_back_is_so_as_a_whole() -> None:
    assert going_on(arrived(), arrived(), are_paused=True) == []
    back = cancelled(on_its_way(), EPOCHS, EPOCHS)
    assert back is not None
    [change] = going_on(back, on_its_way(), are_paused=True)
    assert (change.partition, change.state.replicas, change.state.move) == (COMPANION, BEFORE, None)
