"""What the broker counts and times."""

import asyncio
from bisect import bisect_left
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.partitions.flushing import Flusher
from goqueue.model.errors import PartitionOffline
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.measuring.histograms import LATENCY_BOUNDS_SECONDS, Histogram, Histograms
from goqueue.server.loop_lag import INTERVAL_SECONDS, LoopLagProbe


@given(st.lists(st.floats(0, 100) | st.sampled_from(LATENCY_BOUNDS_SECONDS)))
def test_a_histogram_counts_what_is_at_or_below_each_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)

    figures = histogram.figures()

    assert figures.sum == pytest.approx(sum(values))
    assert sum(figures.counts) == len(values)
    for position, bound in enumerate(figures.bounds):
        at_or_below = sum(value <= bound for value in values)
        assert sum(figures.counts[: position + 1]) == at_or_below


def test_figures_do_not_change_any_more() -> None:
    histogram = Histogram((1.0,))
    figures = histogram.figures()
    histogram.observe(0.5)
    assert list(figures.counts) == [0, 0]


def test_histograms_by_name_are_made_on_first_use() -> None:
    histograms = Histograms()
    histograms["Produce"].observe(0.1)
    histograms["Produce"].observe(0.1)
    assert {name: sum(each.figures().counts) for name, each in histograms.items()} == {"Produce": 2}


@pytest.mark.anyio
async def test_a_loop_that_is_held_up_is_noticed() -> None:
    lag = Histogram()
    probe = LoopLagProbe(lag)
    probe.start()
    held_up_until = perf_counter() + 3 * INTERVAL_SECONDS
    while perf_counter() < held_up_until:
        pass
    async with asyncio.timeout(60):
        while not sum(lag.figures().counts):
            await asyncio.sleep(0.001)
    probe.stop()

    figures = lag.figures()
    late = bisect_left(figures.bounds, INTERVAL_SECONDS)
    assert sum(figures.counts[late:]) == 1
    assert figures.sum > INTERVAL_SECONDS


class _Log:
    log_end_offset = 0
    flushed_offset = 0

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def flush(self) -> int:
        if self._fails:
            raise PartitionOffline("the disk is gone")
        return 0


@pytest.mark.anyio
async def test_flushes_are_timed_whether_they_succeed_or_not() -> None:
    flusher = Flusher()
    await asyncio.gather(*(flusher.submit(_Log(fails=False)) for _ in range(20)))
    with pytest.raises(PartitionOffline):
        await flusher.submit(_Log(fails=True))
    flusher.close()
    assert sum(flusher.latencies.figures().counts) == 21


def test_rebalances_are_timed_from_begin_to_end() -> None:
    stats = RebalanceStats()
    stats.begun("billing", RebalanceReason.MEMBER_JOINED, 1_000)
    stats.begun("billing", RebalanceReason.MEMBER_LEFT, 1_500)
    stats.ended("billing", 3_000)
    stats.begun("deserted", RebalanceReason.MEMBER_JOINED, 1_000)
    stats.deserted("deserted")

    assert stats.durations.figures().sum == 2.0
    assert sum(stats.durations.figures().counts) == 1
