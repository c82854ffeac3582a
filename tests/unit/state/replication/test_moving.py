"""A partition on its way to other brokers: begun, completed, taken back."""

import msgspec

from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import Member, Move, PartitionState
from goqueue.state.metadata_keys import decode_partition, partition_entry
from goqueue.state.replication.in_sync import joined, without
from goqueue.state.replication.leading import Leading
from goqueue.state.replication.moving import begun, cancelled, completed

PRESENT = {NodeId(number): number * 10 for number in range(1, 6)}


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def members(*numbers: int) -> tuple[Member, ...]:
    return tuple(Member(node, PRESENT[node]) for node in nodes(*numbers))


def partition(*replicas: int, minimum: int = 2, in_sync: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(
        leader=NodeId(replicas[0]),
        leader_epoch=7,
        replicas=nodes(*replicas),
        in_sync=members(*(in_sync or replicas)),
        min_in_sync=minimum,
    )


def moving(state: PartitionState, *target: int) -> PartitionState:
    moved = begun(state, nodes(*target), PRESENT, PRESENT)
    assert moved is not None
    return moved


def test_a_move_begins_beside_what_is_there() -> None:
    state = moving(partition(1, 2, 3), 4, 2, 3)
    assert (state.replicas, state.wanted) == (nodes(1, 2, 3, 4), nodes(4, 2, 3))
    assert (state.adding, state.removing) == (nodes(4), nodes(1))
    # Nobody notices: the same leader under the same epoch, and nobody waits for the new one.
    assert (state.leader, state.leader_epoch) == (1, 7)
    assert state.in_sync == members(1, 2, 3)
    assert completed(state, PRESENT, PRESENT) is None


def test_it_ends_when_all_that_are_added_are_in_sync() -> None:
    state = joined(moving(partition(1, 2, 3), 4, 2, 5), *members(4))
    assert completed(state, PRESENT, PRESENT) is None
    done = completed(joined(state, *members(5)), PRESENT, PRESENT)
    assert done is not None
    assert (done.replicas, done.move) == (nodes(4, 2, 5), None)
    assert set(done.in_sync) == set(members(2, 4, 5))
    # The first of the target leads, under a new epoch.
    assert (done.leader, done.leader_epoch) == (4, 8)


def test_a_leader_that_stays_leads_on_under_a_new_epoch() -> None:
    done = completed(joined(moving(partition(1, 2, 3), 4, 2, 1), *members(4)), PRESENT, PRESENT)
    assert done is not None
    assert (done.leader, done.leader_epoch, done.replicas) == (1, 8, nodes(4, 2, 1))


def test_more_replicas_leave_nobody_behind() -> None:
    state = moving(partition(1, minimum=2), 1, 2, 3)
    # One was enough until now; the new ones make it more when they are there.
    assert state.quorum == 1
    done = completed(joined(joined(state, *members(2)), *members(3)), PRESENT, PRESENT)
    assert done is not None
    assert (done.leader_epoch, done.quorum) == (7, 2)


def test_more_replicas_do_not_stop_commits() -> None:
    """With three replicas three must be in sync: the move waits for the one that is behind."""
    state = moving(partition(1, 2, minimum=3, in_sync=(1,)), 1, 2, 3)
    state = joined(state, *members(3))
    assert (state.quorum, len(state.in_sync)) == (2, 2)
    assert completed(state, PRESENT, PRESENT) is None
    assert completed(joined(state, *members(2)), PRESENT, PRESENT) is not None


def test_fewer_replicas() -> None:
    done = completed(moving(partition(1, 2, 3), 2), PRESENT, PRESENT)
    assert done is not None
    assert (done.leader, done.in_sync, done.quorum) == (2, members(2), 1)


def test_it_does_not_end_below_the_quorum() -> None:
    state = joined(moving(partition(1, 2, 3, in_sync=(1,)), 4, 2, 3), *members(4))
    # Two are in sync, but one of them leaves.
    assert completed(state, PRESENT, PRESENT) is None
    assert completed(joined(state, *members(2)), PRESENT, PRESENT) is not None


def test_one_that_was_added_and_died_does_not_count() -> None:
    state = joined(moving(partition(1, 2, 3), 4, 2, 3), *members(4))
    present = {node: epoch for node, epoch in PRESENT.items() if node != 4}
    assert completed(state, present, present) is None


def test_a_move_is_taken_back() -> None:
    state = joined(moving(partition(1, 2, 3), 4, 5, 3), *members(4))
    back = cancelled(state, PRESENT, PRESENT)
    assert back is not None
    assert (back.replicas, back.move, back.in_sync) == (nodes(1, 2, 3), None, members(1, 2, 3))
    assert (back.leader, back.leader_epoch) == (1, 8)


def test_it_is_not_taken_back_where_only_new_ones_have_everything() -> None:
    state = joined(moving(partition(1, 2, 3), 4, 2, 3), *members(4))
    state = without(state, nodes(2, 3))
    assert cancelled(state, PRESENT, PRESENT) is None
    back = cancelled(joined(state, *members(2)), PRESENT, PRESENT)
    assert back is not None
    assert back.in_sync == members(1, 2)


def test_without_a_leader_nobody_leaves() -> None:
    state = msgspec.structs.replace(moving(partition(1, 2, 3), 2, 3), leader=NO_LEADER)
    assert completed(state, PRESENT, PRESENT) is None
    assert cancelled(state, PRESENT, PRESENT) is not None  # nobody was added


def test_another_move_takes_its_place() -> None:
    state = joined(moving(partition(1, 2, 3), 4, 2, 3), *members(4))
    other = moving(state, 5, 2, 3)
    assert other.move == Move(before=nodes(1, 2, 3), target=nodes(5, 2, 3))
    assert (other.replicas, other.in_sync) == (nodes(1, 2, 3, 5), members(1, 2, 3))
    assert other.leader_epoch == 8
    back = moving(other, 1, 2, 3)
    assert (back.replicas, back.move) == (nodes(1, 2, 3), None)


def test_another_order_is_no_move() -> None:
    state = moving(partition(1, 2, 3), 3, 1, 2)
    assert (state.replicas, state.move, state.leader_epoch) == (nodes(3, 1, 2), None, 7)


def test_it_is_kept_in_the_partition_s_key() -> None:
    state = moving(partition(1, 2, 3), 4, 2, 3)
    assert decode_partition(*partition_entry("t", 0, state)) == state
    # As earlier releases wrote it.
    _, value = partition_entry("t", 0, partition(1, 2))
    fields = {name: field for name, field in msgspec.json.decode(value).items() if name != "move"}
    assert decode_partition("k", msgspec.json.encode(fields)) == partition(1, 2)


def test_commits_wait_for_a_copy_as_soon_as_it_is_proposed() -> None:
    """And so it must not be held back from then on."""
    state = moving(partition(1, 2, 3), 4, 2, 3)
    leading = Leading(
        members(1)[0],
        state,
        5,
        high_watermark=0,
        log_end=0,
        durable_end=0,
        lag_max_ms=1_000,
        now_ms=0,
    )
    (four,) = members(4)
    for member in members(2, 3):
        leading.fetched(member, 0, 1)
    assert not leading.counts(four)
    leading.fetched(four, 0, 1)
    assert leading.propose(2) is not None
    assert leading.counts(four)
