"""The lanes by example: overtaking, boosts, modes, and what a sparse index costs."""

import pytest

from goqueue.model.queues.lanes import LANES, Lane, LaneMode
from goqueue.state.priority.index import LaneIndex
from goqueue.state.priority.scheduler import BOOST_AFTER_MS, LaneScheduler

PLENTY = [1_000] * 5


def take(scheduler: LaneScheduler, ready: list[int], want: int, now_ms: int = 0) -> list[int]:
    shares = scheduler.share(ready, want, now_ms)
    scheduler.spend(shares, now_ms)
    return shares


def test_a_hundred_deliveries_are_shared_by_weight() -> None:
    assert take(LaneScheduler(), PLENTY, 100) == [50, 25, 15, 7, 3]


def test_many_small_reads_share_like_one_large_one() -> None:
    scheduler = LaneScheduler()
    totals = [0] * 5
    for _ in range(1_000):
        for lane, share in enumerate(take(scheduler, PLENTY, 1)):
            totals[lane] += share
    assert totals == [500, 250, 150, 70, 30]


def test_a_lane_alone_gets_everything() -> None:
    assert take(LaneScheduler(), [0, 0, 0, 0, 1_000], 700) == [0, 0, 0, 0, 700]


@pytest.mark.parametrize("served", [0, 1, 7, 14, 15, 16, 999])
def test_a_critical_message_is_the_next_delivery(served: int) -> None:
    """However many normal messages went before it."""
    scheduler = LaneScheduler()
    for _ in range(served):
        take(scheduler, [0, 0, 1_000_000, 0, 0], 1)
    assert take(scheduler, [1, 0, 1_000_000, 0, 0], 1) == [1, 0, 0, 0, 0]


def test_past_use_of_an_idle_queue_is_not_held_against_a_lane() -> None:
    scheduler = LaneScheduler()
    take(scheduler, [100_000, 0, 0, 0, 0], 10_000)
    assert take(scheduler, PLENTY, 100)[Lane.CRITICAL] >= 50


def test_strict_mode_empties_lanes_in_order() -> None:
    scheduler = LaneScheduler(LaneMode.STRICT)
    assert take(scheduler, [10, 20, 30, 40, 50], 45) == [10, 20, 15, 0, 0]
    late_ms = 10 * BOOST_AFTER_MS
    assert take(scheduler, PLENTY, 100, late_ms) == [100, 0, 0, 0, 0]


def test_a_lane_that_waited_is_boosted_once() -> None:
    scheduler = LaneScheduler()
    # One message at a time, slowly: the background lane's turn would come after 97 others.
    assert take(scheduler, PLENTY, 1, 0)[Lane.CRITICAL] == 1
    before_ms = BOOST_AFTER_MS - 1
    assert not scheduler.is_boosted(Lane.BACKGROUND, before_ms)
    assert take(scheduler, PLENTY, 1, before_ms)[Lane.CRITICAL] == 1
    order = []
    for step in range(5):
        shares = take(scheduler, PLENTY, 1, BOOST_AFTER_MS + step)
        order.append(Lane(shares.index(1)))
    assert order == [Lane.HIGH, Lane.NORMAL, Lane.LOW, Lane.BACKGROUND, Lane.CRITICAL]


def test_a_boost_is_worth_a_lane_s_weight() -> None:
    scheduler = LaneScheduler()
    ready = [1_000, 0, 0, 0, 1_000]
    assert take(scheduler, ready, 50, 0) == [50, 0, 0, 0, 0]
    assert take(scheduler, ready, 10, BOOST_AFTER_MS) == [4, 0, 0, 0, 6]


def test_an_empty_lane_does_not_wait() -> None:
    scheduler = LaneScheduler()
    take(scheduler, [1_000, 0, 0, 0, 1], 1, 0)
    take(scheduler, [1_000, 0, 0, 0, 0], 1, 20_000)
    take(scheduler, [1_000, 0, 0, 0, 1], 1, 40_000)
    assert not scheduler.is_boosted(Lane.BACKGROUND, 60_000)
    assert scheduler.is_boosted(Lane.BACKGROUND, 70_000)


@pytest.mark.parametrize("weights", [(1, 2, 3, 4), (1, 2, 3, 4, 0), (1, 1, 1, 1, 1, 1)])
def test_weights_must_be_five_and_positive(weights: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="weights are"):
        LaneScheduler(weights=weights)


def test_normal_messages_cost_nothing() -> None:
    index = LaneIndex()
    index.advance(1_000_000)
    index.append(Lane.CRITICAL, 1_000_000, 1_000_001)
    assert index.range_count == 1
    assert index.next_range(Lane.CRITICAL, 0, 1_000_001) == (1_000_000, 1_000_001)
    assert index.next_range(Lane.NORMAL, 10, 1_000_001) == (10, 1_000_000)
    assert index.next_range(Lane.NORMAL, 1_000_000, 1_000_001) is None
    assert index.count(Lane.NORMAL, 0, 1_000_001) == 1_000_000
    assert index.take_changed() == [15]


def test_neighbours_of_a_lane_are_one_span() -> None:
    index = LaneIndex()
    for offset in range(1_000):
        index.append(Lane.HIGH, offset, offset + 1)
    assert index.range_count == 1


def test_messages_are_appended_in_order() -> None:
    index = LaneIndex()
    index.append(Lane.HIGH, 5, 7)
    with pytest.raises(ValueError, match="does not follow on 7"):
        index.append(Lane.LOW, 6, 8)


def test_a_span_is_cut_at_chunks_and_joined_again() -> None:
    index = LaneIndex()
    index.append(Lane.LOW, 65_000, 66_000)
    chunks = [(number, index.chunk(number)) for number in index.take_changed()]
    assert [number for number, _ in chunks] == [0, 1]
    restored = LaneIndex.restore([(number, data) for number, data in chunks if data is not None])
    assert restored.next_range(Lane.LOW, 0, 70_000) == (65_000, 66_000)
    assert restored.range_count == 1
    assert restored.end == 66_000


def test_reading_a_span_that_goes_on_ends_at_the_end() -> None:
    index = LaneIndex()
    index.append(Lane.CRITICAL, 0, 100)
    assert index.next_range(Lane.CRITICAL, 10, 20) == (10, 20)
    for lane in LANES:
        assert index.next_range(lane, 20, 20) is None
