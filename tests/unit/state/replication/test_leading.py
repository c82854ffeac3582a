"""A leader commits what all in sync have, and believes no change of that set before it is sure."""

from msgspec.structs import replace

from goqueue.model.names import NodeId
from goqueue.model.replication import Member, Move, PartitionState
from goqueue.state.replication.in_sync import joined, without
from goqueue.state.replication.leading import FetchVerdict, Leading

ME, SECOND, THIRD = (Member(NodeId(i), 10 + i) for i in range(3))
LAG_MAX_MS = 1_000


def state(*in_sync: Member, min_in_sync: int = 2) -> PartitionState:
    return PartitionState(
        leader=ME.node,
        leader_epoch=4,
        replicas=(ME.node, SECOND.node, THIRD.node),
        in_sync=in_sync,
        min_in_sync=min_in_sync,
    )


def leading(*in_sync: Member, watermark: int = 0, end: int = 5, min_in_sync: int = 2) -> Leading:
    return Leading(
        ME,
        state(*in_sync, min_in_sync=min_in_sync),
        100,
        high_watermark=watermark,
        log_end=end,
        durable_end=end,
        lag_max_ms=LAG_MAX_MS,
        now_ms=0,
    )


def test_a_new_leader_keeps_the_watermark_it_had_as_a_follower() -> None:
    leader = leading(ME, SECOND, watermark=3)
    assert leader.high_watermark == 3
    assert not leader.knows_its_end


def test_what_everyone_in_sync_asks_beyond_is_committed() -> None:
    leader = leading(ME, SECOND, THIRD)
    leader.fetched(SECOND, 5, 10)
    assert leader.high_watermark == 0
    leader.fetched(THIRD, 4, 10)
    assert leader.high_watermark == 4
    leader.fetched(THIRD, 5, 20)
    assert leader.high_watermark == 5
    assert leader.knows_its_end


def test_too_few_in_sync_commit_nothing() -> None:
    leader = leading(ME, watermark=2)
    leader.appended(9, 9)
    assert leader.high_watermark == 2


def test_only_what_is_on_disk_counts_where_every_append_is_flushed() -> None:
    leader = leading(ME, SECOND)
    leader.appended(9, 6)
    leader.fetched(SECOND, 9, 10)
    assert leader.high_watermark == 6


def test_a_restarted_follower_has_promised_nothing_yet() -> None:
    leader = leading(ME, SECOND)
    restarted = Member(SECOND.node, SECOND.broker_epoch + 5)
    assert leader.fetched(restarted, 5, 10) is FetchVerdict.ACCEPTED
    assert leader.high_watermark == 0
    assert leader.fetched(SECOND, 5, 11) is FetchVerdict.STALE_BROKER
    assert leader.fetched(Member(NodeId(7), 1), 5, 11) is FetchVerdict.NOT_A_REPLICA


def test_a_replica_that_joins_counts_from_the_proposal_on() -> None:
    """The proposal may have come true long before its answer is here."""
    leader = leading(ME, SECOND)
    leader.fetched(SECOND, 5, 10)
    leader.fetched(THIRD, 5, 10)
    proposal = leader.propose(20)
    assert proposal is not None
    assert proposal.joining == THIRD
    assert proposal.state == joined(leader.state, THIRD)
    leader.appended(6, 6)
    leader.fetched(SECOND, 6, 30)
    assert leader.high_watermark == 5
    leader.fetched(THIRD, 6, 30)
    assert leader.high_watermark == 6


def test_copies_that_a_move_adds_are_told_until_they_are_in_sync() -> None:
    leader = leading(ME, SECOND)
    assert leader.added_ends == []
    move = Move(before=(ME.node, SECOND.node), target=(ME.node, THIRD.node, NodeId(7)))
    moving = replace(state(ME, SECOND), replicas=(*move.before, THIRD.node, NodeId(7)), move=move)
    leader.observe(moving, 101)
    assert leader.added_ends == [0, 0]
    leader.fetched(THIRD, 3, 10)
    assert leader.added_ends == [3, 0]
    leader.observe(joined(moving, THIRD), 102)
    assert leader.added_ends == [0]
    assert not leader.counts(Member(NodeId(7), 1))
    assert leader.counts(THIRD)


def test_a_replica_that_leaves_counts_until_that_was_read() -> None:
    leader = leading(ME, SECOND, THIRD)
    for now_ms in (10, 1_000, 2_000):
        leader.fetched(SECOND, 5, now_ms)
    proposal = leader.propose(2_000)
    assert proposal is not None
    assert proposal.state == without(leader.state, {THIRD.node})
    assert leader.high_watermark == 0
    assert leader.observe(proposal.state, 101)
    assert leader.high_watermark == 5


def test_an_open_proposal_is_asked_again_until_its_fate_is_known() -> None:
    leader = leading(ME, SECOND, THIRD)
    proposal = leader.propose(5_000)
    assert proposal is not None
    leader.fetched(SECOND, 5, 5_010)
    assert leader.propose(6_000) is proposal
    # A read of the version that it compares decides nothing: it may still be on its way.
    assert leader.observe(leader.state, 100)
    assert leader.propose(6_000) is proposal
    assert leader.observe(state(ME, SECOND, THIRD), 102)
    assert leader.proposal is None


def test_a_refused_proposal_is_forgotten() -> None:
    leader = leading(ME, SECOND)
    leader.fetched(THIRD, 5, 10)
    proposal = leader.propose(20)
    assert proposal is not None
    leader.fetched(SECOND, 5, 20)
    leader.refused(proposal)
    assert leader.proposal is None
    assert leader.high_watermark == 5


def test_another_leader_or_epoch_ends_it() -> None:
    leader = leading(ME, SECOND)
    other = PartitionState(
        leader=SECOND.node, leader_epoch=5, replicas=(ME.node, SECOND.node), in_sync=(SECOND,)
    )
    assert leader.observe(other, 99)
    assert not leader.observe(other, 101)


def test_a_follower_that_keeps_asking_for_old_ends_is_in_step_as_of_then() -> None:
    """It never reaches an end that moves on, and is not slow for that."""
    leader = leading(ME, SECOND, THIRD)
    end = 5
    for now_ms in range(0, 5_000, 500):
        leader.fetched(SECOND, end, now_ms)
        leader.fetched(THIRD, end, now_ms)
        end += 10
        leader.appended(end, end)
    assert leader.propose(5_000) is None
