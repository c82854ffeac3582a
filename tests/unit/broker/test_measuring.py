"""What the broker counts and times."""

import asyncio

import pytest

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.partitions.flushing import Flusher
from goqueue.model.errors import PartitionOffline
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.replication.nodes import Nodes, with_nodes


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


@with_nodes
async def test_dead_letters_are_counted_by_their_leaders_alone(nodes: Nodes) -> None:
    running = await nodes.start(1, 2, 3)
    new = NewTopic(name="orders.dlq", partitions=3)
    await running[0].service.topics.create(ANYONE, new)
    for partition in range(3):
        letters = [NewRecord(value=b"letter")] * 2
        await publish(running[0].node, "orders.dlq", letters, partition=partition)

    async def pending() -> int:
        figures = [
            await each.service.measuring.figures(ANYONE, groups_max=1, queues_max=1)
            for each in running
        ]
        return sum(each.queues.dead_letters.pending["orders.dlq"] for each in figures)

    copies = [each.node.hosted.get("orders.dlq", index) for each in running for index in range(3)]
    await nodes.until(lambda: all(copy and copy.high_watermark == 2 for copy in copies))
    assert await pending() == 6
