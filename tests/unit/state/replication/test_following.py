"""A follower copies its leader's log, and cuts its own only where the two histories part."""

from goqueue.model.names import NodeId
from goqueue.state.replication.following import (
    Append,
    BelowStart,
    Diverging,
    EpochEnd,
    FetchQuestion,
    Following,
    Halt,
    Ignore,
    Records,
    StartAt,
    Truncate,
    diverging,
)
from tests.sim.replication.disk import SimLog


def log(*epochs: int) -> SimLog:
    """A log with one record for each of these epochs."""
    made = SimLog()
    for value, epoch in enumerate(epochs):
        made.append((epoch, value))
    return made


def follower(watermark: int = 0) -> Following:
    return Following(NodeId(1), leader_epoch=6, broker_epoch=40, high_watermark=watermark)


def settle(own: SimLog, leader: SimLog, watermark: int = 0) -> None:
    """Ask until the histories agree."""
    following = follower(watermark)
    for _ in range(10):
        question = following.question(own, own.end)
        parting = diverging(question, leader, leader.end)
        if parting is None:
            return
        step = following.answered(question, parting, own, own.end)
        assert isinstance(step, Truncate)
        own.truncate(step.to_offset)
    raise AssertionError("the histories never agree")


def test_it_asks_for_its_end_and_names_its_last_epoch() -> None:
    own = log(1, 1, 3)
    assert follower().question(own, own.end) == FetchQuestion(6, 40, 3, 3)


def test_records_are_appended_with_the_watermark_they_reach() -> None:
    own, following = log(1), follower()
    question = following.question(own, own.end)
    assert following.answered(question, Records(3, 9), own, own.end) == Append(3)
    assert follower(2).answered(question, Records(3, 1), own, own.end) == Append(2)


def test_a_tail_that_the_leader_never_had_is_cut() -> None:
    own, leader = log(1, 1, 2, 2), log(1, 1, 3)
    settle(own, leader)
    assert own.records == log(1, 1).records


def test_histories_that_part_twice_are_cut_twice() -> None:
    own, leader = log(1, 1, 1, 1, 4), log(1, 1, 3, 3, 5)
    settle(own, leader)
    assert own.records == log(1, 1).records


def test_an_epoch_under_which_nothing_was_written_is_forgotten() -> None:
    own, leader = log(1, 1), log(1, 1, 1)
    own.assign(2)
    leader.assign(3)
    settle(own, leader)
    assert own.latest == 1
    assert own.end == 2


def test_it_halts_rather_than_cut_what_was_committed() -> None:
    own, following = log(1, 1, 2), follower(watermark=3)
    question = following.question(own, own.end)
    step = following.answered(question, Diverging(EpochEnd(1, 2)), own, own.end)
    assert isinstance(step, Halt)
    assert "below the high watermark 3" in step.reason


def test_answers_to_another_log_or_epoch_are_thrown_away() -> None:
    own, following = log(1, 1), follower()
    question = following.question(own, own.end)
    answers = (Records(5, 0), Diverging(EpochEnd(1, 1)), BelowStart(9))
    for answer in answers:
        longer = log(1, 1, 1)
        assert following.answered(question, answer, longer, longer.end) == Ignore()
        earlier = question._replace(leader_epoch=5)
        assert following.answered(earlier, answer, own, own.end) == Ignore()
        rewritten = log(1, 3)
        assert following.answered(question, answer, rewritten, rewritten.end) == Ignore()


def test_a_log_that_ends_before_the_leaders_begins_starts_anew() -> None:
    own, following = log(1, 1), follower()
    question = following.question(own, own.end)
    assert following.answered(question, BelowStart(70), own, own.end) == StartAt(70)
