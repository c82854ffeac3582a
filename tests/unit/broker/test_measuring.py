"""What the broker counts and times."""

import asyncio

import pytest

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.partitions.flushing import Flusher
from goqueue.model.errors import PartitionOffline
from goqueue.model.groups.rebalances import RebalanceReason


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
    await asyncio.gather(
        *(asyncio.wrap_future(flusher.submit(_Log(fails=False))) for _ in range(20))
    )
    with pytest.raises(PartitionOffline):
        await asyncio.wrap_future(flusher.submit(_Log(fails=True)))
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
