"""How late the event loop is."""

import asyncio
from bisect import bisect_left
from time import perf_counter

import pytest

from goqueue.model.measuring.histograms import Histogram
from goqueue.server.loop_lag import INTERVAL_SECONDS, LoopLagProbe


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
