"""Figures of queues: what is ready, leased, waiting or dying, and what became of the rest."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from goqueue.broker.measuring.ages import Ages, StoredAt
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.queues import Queues
from goqueue.model.errors import GoQueueError
from goqueue.model.measuring.figures import (
    AllQueueFigures,
    DeadLetterFigures,
    QueueFigures,
    QueueName,
)
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.dead_letters import REDRIVE_GROUP, is_dead_letter_topic
from goqueue.model.queues.lanes import LANES
from goqueue.model.queues.messages import QueueDescription, QueueTotals
from goqueue.pace import Pace

_OUTCOMES: Final[Sequence[tuple[str, Callable[[QueueTotals], int]]]] = (
    ("accepted", lambda totals: totals.accepted),
    ("released", lambda totals: totals.released),
    ("retried", lambda totals: totals.retried),
    ("rejected", lambda totals: totals.rejected),
    ("timed_out", lambda totals: totals.timed_out),
    ("expired", lambda totals: totals.expired),
    ("dead_lettered", lambda totals: totals.dead_lettered),
    ("dropped", lambda totals: totals.dropped),
)


class _QueuePart(NamedTuple):
    """One partition of a queue."""

    topic: str
    partition: HostedPartition
    seen: QueueDescription


def _none() -> list[int]:
    return [0] * len(LANES)


@dataclass(slots=True)
class _Sum:
    ready: list[int] = field(default_factory=_none)
    in_flight: list[int] = field(default_factory=_none)
    waiting: list[int] = field(default_factory=_none)
    delivered: list[int] = field(default_factory=_none)
    dying: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: {name: 0 for name, _ in _OUTCOMES})
    # Where unsettled messages begin in each partition that has any.
    unsettled: list[StoredAt] = field(default_factory=list)

    def add(self, part: _QueuePart) -> None:
        seen = part.seen
        for lane, of_lane in zip(LANES, seen.lanes, strict=True):
            self.ready[lane] += of_lane.ready
            self.in_flight[lane] += of_lane.in_flight
            self.waiting[lane] += of_lane.waiting
            self.delivered[lane] += of_lane.dequeued
        self.dying += seen.dying
        if seen.totals is not None:
            for name, read_total in _OUTCOMES:
                self.outcomes[name] += read_total(seen.totals)
        if seen.ready or seen.in_flight or seen.waiting:
            self.unsettled.append(StoredAt(part.partition, seen.floor))

    def figures(self) -> QueueFigures:
        return QueueFigures(
            ready=self.ready,
            in_flight=self.in_flight,
            waiting=self.waiting,
            delivered=self.delivered,
            dying=self.dying,
            outcomes=self.outcomes,
            has_unsettled=bool(self.unsettled),
        )


async def read_queues(
    host: QueueHost,
    queues: Queues,
    hosted: HostedPartitions,
    *,
    pace: Pace,
    ages: Ages,
    now_ms: int,
    detailed_max: int,
) -> AllQueueFigures:
    """Ages are read of as many queues as `detailed_max`, the first by name."""
    sums: dict[QueueName, _Sum] = {}
    redriven: dict[tuple[str, int], int] = {}
    for part in _parts(host, queues):
        name = QueueName(part.topic, part.seen.queue.group)
        sums.setdefault(name, _Sum()).add(part)
        if name.group == REDRIVE_GROUP:
            redriven[part.topic, part.seen.queue.partition] = part.seen.floor
        if pace.is_over:
            await pace.rest()
    ordered = sorted(sums)
    detailed = {name: sums[name].unsettled for name in ordered[:detailed_max]}
    oldest = await ages.oldest(_unsettled(detailed), now_ms)
    figures = {name: sums[name].figures() for name in ordered}
    return AllQueueFigures(figures, oldest, _dead_letters(queues, hosted, redriven))


def _parts(host: QueueHost, queues: Queues) -> Iterator[_QueuePart]:
    """In no order; those of deleted and offline partitions are left out."""
    for shard in queues.registry.state.loaded_shards():
        for key in shard.machine.list_queues():
            view = host.image.topics_by_id.get(key.topic_id)
            if view is None:
                continue
            try:
                partition = host.partition(view.name, key.partition)
            except GoQueueError:
                continue
            readable = OffsetRange(partition.log_start_offset, partition.last_stable_offset)
            gaps = queues.registry.known_gaps(key, partition)
            seen = shard.machine.look(key, readable, partition.lanes.index, gaps)
            if seen is not None:
                yield _QueuePart(view.name, partition.hosted, seen)


def _unsettled(
    detailed: Mapping[QueueName, Sequence[StoredAt]],
) -> Iterator[tuple[QueueName, StoredAt]]:
    for name, unsettled in detailed.items():
        for at in unsettled:
            yield name, at


def _dead_letters(
    queues: Queues, hosted: HostedPartitions, redriven: Mapping[tuple[str, int], int]
) -> DeadLetterFigures:
    counts = queues.dead_letters
    pending: Counter[str] = Counter()
    for partition in hosted:
        topic, index = partition.name
        # The leader counts: figures of all brokers are added up.
        if is_dead_letter_topic(topic) and partition.led is not None:
            start = max(partition.log_start_offset, redriven.get((topic, index), 0))
            pending[topic] += max(0, partition.high_watermark - start)
    return DeadLetterFigures(dict(counts.written), dict(counts.sent_back), pending)
