"""Lanes: shares under load, no starvation, and an index that agrees with a list of messages."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.queues.lanes import LANES, WEIGHTS, Lane, LaneMode
from goqueue.state.priority.index import INDEX_CHUNK_OFFSETS, LaneIndex
from goqueue.state.priority.scheduler import LaneScheduler

ready_counts = st.lists(st.integers(0, 400), min_size=5, max_size=5)
weights = st.lists(st.integers(1, 60), min_size=5, max_size=5)


def one_by_one(
    credits_left: list[int], lane_weights: list[int], ready: list[int], want: int
) -> list[int]:
    """Deficit round robin as a person would do it, one message at a time."""
    left, taken, credit = list(ready), [0] * 5, list(credits_left)
    while want and any(left):
        lane = next((n for n in range(5) if left[n] and credit[n]), None)
        if lane is None:
            credit = list(lane_weights)
            continue
        credit[lane] -= 1
        left[lane] -= 1
        taken[lane] += 1
        want -= 1
    return taken


@settings(max_examples=60, deadline=None)
@given(lane_weights=weights, ready=ready_counts, want=st.integers(1, 900))
def test_shares_are_those_of_single_steps(
    lane_weights: list[int], ready: list[int], want: int
) -> None:
    scheduler = LaneScheduler(weights=lane_weights)
    assert scheduler.share(ready, want, 0) == one_by_one(lane_weights, lane_weights, ready, want)


@settings(max_examples=60, deadline=None)
@given(
    mode=st.sampled_from(LaneMode),
    steps=st.lists(st.tuples(ready_counts, st.integers(1, 300)), max_size=20),
)
def test_takes_what_there_is_and_no_more(
    mode: LaneMode, steps: list[tuple[list[int], int]]
) -> None:
    scheduler = LaneScheduler(mode)
    for now_ms, (ready, want) in enumerate(steps):
        shares = scheduler.share(ready, want, now_ms)
        assert all(share <= there for share, there in zip(shares, ready, strict=True))
        assert sum(shares) == min(want, sum(ready))
        scheduler.spend(shares, now_ms)


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 120), min_size=200, max_size=200))
def test_a_saturated_queue_is_shared_by_weight(sizes: list[int]) -> None:
    scheduler = LaneScheduler()
    taken: Counter[int] = Counter()
    for want in sizes:
        shares = scheduler.share([1_000] * 5, want, 0)
        scheduler.spend(shares, 0)
        taken.update(dict(enumerate(shares)))
    total = sum(sizes)
    for lane, weight in enumerate(WEIGHTS):
        # Whole rounds are exact, so no lane is ever off by more than one round.
        assert abs(taken[lane] - total * weight / 100) <= weight


@settings(max_examples=40, deadline=None)
@given(data=st.data(), backlog=st.lists(st.booleans(), min_size=5, max_size=5))
def test_no_lane_waits_longer_than_two_rounds(data: st.DataObject, backlog: list[bool]) -> None:
    """Lanes come and go; while one has messages it is served within two rounds."""
    scheduler = LaneScheduler()
    waited = [0] * 5
    for _ in range(300):
        ready = [100 * has for has in backlog]
        if not any(ready):
            ready[data.draw(st.sampled_from(LANES))] = 1
        shares = scheduler.share(ready, 1, 0)
        scheduler.spend(shares, 0)
        for lane in LANES:
            waited[lane] = waited[lane] + 1 if ready[lane] and not shares[lane] else 0
            assert waited[lane] <= 2 * (100 - WEIGHTS[lane])
        if data.draw(st.integers(0, 9)) == 0:
            lane = data.draw(st.sampled_from(LANES))
            backlog[lane] = not backlog[lane]


@settings(max_examples=40, deadline=None)
@given(served=st.lists(st.integers(0, 4), max_size=40))
def test_spending_less_than_allowed_keeps_the_rest(served: list[int]) -> None:
    """A caller that found some messages gone takes fewer; the lane's credit is not lost."""
    careful, plain = LaneScheduler(), LaneScheduler()
    for lane in served:
        one = [int(n == lane) for n in LANES]
        careful.share([10] * 5, 20, 0)
        careful.spend(one, 0)
        plain.spend(one, 0)
    assert careful.share([500] * 5, 100, 0) == plain.share([500] * 5, 100, 0)


ranges = st.lists(
    st.tuples(st.sampled_from(LANES), st.integers(0, 5), st.integers(1, 6)), max_size=40
)


def lanes_of(parts: list[tuple[Lane, int, int]], base: int) -> tuple[LaneIndex, dict[int, Lane]]:
    index, messages, end = LaneIndex(base), {}, base
    for lane, gap, size in parts:
        for offset in range(end, end + gap):
            messages[offset] = Lane.NORMAL
        start, end = end + gap, end + gap + size
        index.append(lane, start, end)
        for offset in range(start, end):
            messages[offset] = lane
    return index, messages


def found(index: LaneIndex, start: int, end: int) -> dict[int, Lane]:
    messages: dict[int, Lane] = {}
    for lane in LANES:
        offset = start
        while (offsets := index.next_range(lane, offset, end)) is not None:
            assert start <= offsets.start < offsets.end <= end
            for member in range(*offsets):
                assert member not in messages
                messages[member] = lane
            assert index.count(lane, start, end) >= offsets.size
            offset = offsets.end
    return messages


@settings(max_examples=80, deadline=None)
@given(
    parts=ranges,
    base=st.sampled_from((0, INDEX_CHUNK_OFFSETS - 20)),
    low=st.integers(0, 120),
    size=st.integers(0, 120),
    cut=st.integers(0, 100),
    trim=st.integers(0, 100),
)
def test_index_agrees_with_a_list(
    parts: list[tuple[Lane, int, int]], base: int, low: int, size: int, cut: int, trim: int
) -> None:
    index, messages = lanes_of(parts, base)
    limit = max(index.end - cut, base)
    if cut:
        index.truncate(limit)
    below = min(base + trim, limit)
    index.trim(below)
    kept = {offset: lane for offset, lane in messages.items() if below <= offset < limit}
    assert index.end == limit
    stored = {
        number: data
        for number in range(limit // INDEX_CHUNK_OFFSETS + 1)
        if (data := index.chunk(number)) is not None
    }
    restored = LaneIndex.restore(stored.items(), start=below)
    assert restored.end <= limit
    restored.advance(limit)
    for candidate in (index, restored):
        start, end = max(base + low, below), min(max(base + low, below) + size, limit)
        expected = {offset: lane for offset, lane in kept.items() if start <= offset < end}
        assert found(candidate, start, end) == expected
        counts = Counter(expected.values())
        assert [candidate.count(lane, start, end) for lane in LANES] == [
            counts[lane] for lane in LANES
        ]


@settings(max_examples=40, deadline=None)
@given(parts=ranges, cut=st.integers(0, 60), more=ranges)
def test_storing_what_changed_is_enough(
    parts: list[tuple[Lane, int, int]], cut: int, more: list[tuple[Lane, int, int]]
) -> None:
    base = INDEX_CHUNK_OFFSETS - 20
    index, _ = lanes_of(parts, base)
    stored: dict[int, bytes] = {}

    def store() -> None:
        for number in index.take_changed():
            data = index.chunk(number)
            stored.pop(number, None)
            if data is not None:
                stored[number] = data

    store()
    index.truncate(max(index.end - cut, base))
    store()
    for lane, gap, size in more:
        index.append(lane, index.end + gap, index.end + gap + size)
        store()
    restored = LaneIndex.restore(stored.items(), start=base)
    restored.advance(index.end)
    assert found(restored, base, index.end) == found(index, base, index.end)
    assert not index.take_changed()
