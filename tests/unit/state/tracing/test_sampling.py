"""Which messages are traced: the rate is met, and every range gives the same answer."""

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.tracing.traceparent import TraceParent
from goqueue.state.tracing.identity import delayed_context, message_context, partition_key
from goqueue.state.tracing.sampling import (
    LEVEL_MAX,
    MILLION,
    Budget,
    Sampler,
    Throttle,
    parts_per_million,
)

keys = st.integers(0, 2**64 - 1)
rates = st.sampled_from([1, 10, 333, 10_000, 33_333, 300_000, 500_000, 700_001, 999_999, MILLION])
offsets = st.integers(0, 2**40)


@given(keys, rates, offsets, st.integers(0, 500), st.data())
def test_whichever_range_is_asked_for_the_same_offsets_are_chosen(
    key: int, ppm: int, start: int, size: int, data: st.DataObject
) -> None:
    sampler = Sampler(key, ppm)
    end = start + size
    whole = list(sampler.chosen(start, end))
    cuts = sorted(data.draw(st.lists(st.integers(start, end), max_size=5)))
    bounds = [start, *cuts, end]
    parts = [offset for left, right in pairwise(bounds) for offset in sampler.chosen(left, right)]
    assert parts == whole
    assert whole == sorted(set(whole))
    at = data.draw(st.integers(start, end))
    assert sampler.is_chosen(at) == (at in list(sampler.chosen(at, at + 1)))
    if start <= at < end:
        assert sampler.is_chosen(at) == (at in whole)


@given(keys, rates, offsets)
def test_the_rate_is_met(key: int, ppm: int, start: int) -> None:
    """One in each block: over any range the count is off by two at most, for any rate."""
    size = 20 * MILLION // ppm
    count = sum(1 for _ in Sampler(key, ppm).chosen(start, start + size))
    assert abs(count - size * ppm / MILLION) <= 2


def test_a_rate_of_one_chooses_all() -> None:
    assert list(Sampler(7, MILLION).chosen(5, 15)) == list(range(5, 15))


@given(keys, rates, offsets, st.integers(1, 100), st.integers(1, 6))
def test_a_coarser_level_chooses_among_what_finer_ones_choose(
    key: int, ppm: int, start: int, blocks: int, level: int
) -> None:
    sampler = Sampler(key, ppm)
    end = start + blocks * MILLION // ppm
    finer = list(sampler.chosen(start, end, level - 1))
    coarser = list(sampler.chosen(start, end, level))
    assert set(coarser) <= set(finer)
    assert abs(len(coarser) - len(finer) / 2) <= 2
    assert coarser == [offset for offset in finer if sampler.is_chosen(offset, level)]


@given(keys, rates, offsets)
def test_the_first_chosen_offset_from_here(key: int, ppm: int, start: int) -> None:
    sampler = Sampler(key, ppm)
    first = sampler.first_from(start)
    assert next(sampler.chosen(start, start + 2 * MILLION // ppm + 2)) == first


def test_choices_differ_between_partitions() -> None:
    topic = UUID(int=1)
    choices = {
        tuple(Sampler(partition_key(topic, index), 10_000).chosen(0, 2_000)) for index in range(20)
    }
    assert len(choices) == 20


def test_rates_as_parts_per_million() -> None:
    assert [parts_per_million(rate) for rate in (0.0, -1.0, 1e-12, 0.01, 1.0, 2.0)] == [
        *(0, 0, 1, 10_000, MILLION, MILLION)
    ]


class TestThrottle:
    def test_without_a_bound_everything_is_noted(self) -> None:
        throttle = Throttle(0)
        assert throttle.level_for(10**9, 0) == 0
        assert throttle.admit_one(0)
        assert throttle.left_out == 0

    @given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2 * MILLION)), max_size=50))
    def test_a_second_never_gets_more_than_its_bound(self, calls: list[tuple[int, int]]) -> None:
        throttle = Throttle(100)
        now_us = 0
        noted: dict[int, int] = {}
        asked = 0
        for count, pause_us in calls:
            now_us += pause_us
            asked += count
            level = throttle.level_for(count, now_us)
            assert throttle.level <= LEVEL_MAX
            if level is not None:
                second = now_us // MILLION
                noted[second] = noted.get(second, 0) + (count >> level)
                throttle.spend(count >> level, count)
        assert all(total <= 100 for total in noted.values())
        assert throttle.left_out == asked - sum(noted.values())

    def test_it_gets_finer_again_when_there_is_less(self) -> None:
        throttle = Throttle(100)
        assert throttle.level_for(800, 0) == 3
        throttle.spend(100, 800)
        levels = [throttle.level_for(1, second * MILLION) for second in range(1, 6)]
        assert levels == [3, 2, 1, 0, 0]

    def test_single_messages_have_their_bound_too(self) -> None:
        throttle = Throttle(3)
        assert [throttle.admit_one(5) for _ in range(5)] == [True] * 3 + [False] * 2
        assert throttle.left_out == 2
        assert throttle.admit_one(MILLION)


def test_a_budget_lets_the_last_one_overdraw_and_takes_it_from_the_next_second() -> None:
    budget = Budget(10)
    assert budget.take(8, 0)
    assert budget.take(8, 1)
    assert not budget.take(1, 2)
    assert not budget.has_left(3)
    assert budget.take(4, MILLION)
    assert not budget.take(1, MILLION + 1)


def test_what_was_overdrawn_is_paid_by_quiet_seconds_too() -> None:
    budget = Budget(10)
    assert budget.take(50, 0)
    assert not budget.has_left(3 * MILLION)
    assert budget.take(10, 60 * MILLION)
    assert not budget.has_left(60 * MILLION)


def test_after_quiet_seconds_a_throttle_is_as_fine_as_at_first() -> None:
    throttle = Throttle(10)
    level = throttle.level_for(10_000, 0)
    assert level is not None
    assert level > 5
    throttle.spend(10, 10_000)
    assert throttle.level_for(1, 3 * MILLION) == level - 2
    throttle.spend(1, 1)
    assert throttle.level_for(1, 60 * MILLION) == 0


def test_ids_follow_from_the_message_or_from_its_header() -> None:
    key = partition_key(UUID(int=1), 0)
    context = message_context(key, 5)
    assert context == message_context(key, 5)
    assert len({message_context(key, offset).trace_id for offset in range(100)}) == 100
    assert (len(context.trace_id), len(context.span_id), context.parent_id) == (32, 16, None)
    parent = TraceParent("ab" * 16, "cd" * 8, is_sampled=True)
    taken_over = message_context(key, 5, parent)
    assert taken_over == ("ab" * 16, context.span_id, "cd" * 8)
    delayed, chance = delayed_context(key, "5-0-1")
    assert (delayed, chance) == delayed_context(key, "5-0-1")
    assert delayed.trace_id != context.trace_id
    assert 0 <= chance < 2**64
