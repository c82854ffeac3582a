"""How far groups are behind in partitions that lie on other brokers.

A group's coordinator knows what the group has committed, and only those that have a copy of a
partition know where it ends. So it asks the leaders, all at once, at each scrape.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.broker.measuring.ages import Ages, StoredAt
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NO_LEADER, NodeId, topic_partition

# Prometheus gives a scrape ten seconds by default. Who takes longer is left out.
ANSWER_TIMEOUT_S: Final = 2.0
# Offsets of one scrape that others are asked about; a megabyte or so.
ASKED_MAX: Final = 20_000


class CommittedAt(NamedTuple):
    topic: str
    partition: int
    offset: int


class Behind(NamedTuple):
    """`age_seconds` of the message at the offset; None where it is not known."""

    high_watermark: int
    age_seconds: float | None


class HowFarBehind(msgspec.Struct, frozen=True):
    committed: list[CommittedAt]


BEHIND: Final = Method("measuring.behind", HowFarBehind, list[Behind | None], is_repeatable=True)


class BehindElsewhere:
    def __init__(self, calls: Calls, led: LedPartitions, clock_ms: Callable[[], int]) -> None:
        self._calls = calls
        self._led = led
        # Others must not keep this broker's own scrapes from looking.
        self._ages = Ages()
        self._clock_ms = clock_ms
        calls.serve(BEHIND, self._behind_here)

    async def ask(self, committed: Iterable[CommittedAt]) -> dict[CommittedAt, Behind]:
        """Of those whose leaders answer."""
        by_leader: dict[NodeId, list[CommittedAt]] = {}
        for each in islice(dict.fromkeys(committed), ASKED_MAX):
            leader = self._leader_of(each)
            if leader != NO_LEADER:
                by_leader.setdefault(leader, []).append(each)
        answers = await asyncio.gather(*(self._ask(*item) for item in by_leader.items()))
        return {
            asked: behind
            for all_asked, answer in zip(by_leader.values(), answers, strict=True)
            for asked, behind in zip(all_asked, answer, strict=False)
            if behind is not None
        }

    def _leader_of(self, committed: CommittedAt) -> NodeId:
        try:
            return self._calls.leader_of(topic_partition(committed.topic, committed.partition))
        except GoQueueError:
            # The topic is gone, and the offset goes soon.
            return NO_LEADER

    async def _ask(self, leader: NodeId, committed: list[CommittedAt]) -> list[Behind | None]:
        try:
            return await self._calls.ask_broker(
                BEHIND, leader, HowFarBehind(committed), timeout_s=ANSWER_TIMEOUT_S
            )
        except GoQueueError:
            return []

    async def _behind_here(self, request: HowFarBehind) -> list[Behind | None]:
        found = [self._find(each) for each in request.committed]
        ends = [None if partition is None else partition.high_watermark for partition in found]
        behind = (
            (at, StoredAt(partition, each.offset))
            for at, (each, partition) in enumerate(zip(request.committed, found, strict=True))
            if partition is not None and partition.high_watermark > each.offset
        )
        ages = await self._ages.oldest(behind, self._clock_ms())
        return [None if end is None else Behind(end, ages.get(at)) for at, end in enumerate(ends)]

    def _find(self, committed: CommittedAt) -> HostedPartition | None:
        try:
            return self._led.find(committed.topic, committed.partition).hosted
        except GoQueueError:
            return None
