"""Topics read as queues: what is ready, leased and waiting by priority, and what became of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import Metric

from goqueue.broker.measuring.queues import QueueFigures, queue_figures
from goqueue.broker.node import Node
from goqueue.broker.partitions.partition import Partition
from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.ages import Ages, Place
from goqueue.doors.http.metrics.families import Families, Labels, counters, gauge, gauges
from goqueue.doors.http.metrics.pace import Pace
from goqueue.model.queues.dead_letters import REDRIVE_GROUP, is_dead_letter_topic
from goqueue.model.queues.lanes import LANES
from goqueue.model.queues.messages import LaneFigures, QueueTotals

_Key = tuple[str, str]

_LANE_GAUGES: Final[Sequence[tuple[str, str, Callable[[LaneFigures], int]]]] = (
    ("ready", "Messages that a receive would get now.", lambda lane: lane.ready),
    ("in_flight", "Messages that consumers have leased.", lambda lane: lane.in_flight),
    ("retry_wait", "Messages that failed and wait for their next try.", lambda lane: lane.waiting),
)
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


@dataclass(slots=True)
class _Sum:
    """Of all partitions of a topic, as one group reads it."""

    lanes: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0] * len(LANES) for name, *_ in _LANE_GAUGES}
    )
    dying: int = 0
    delivered: list[int] = field(default_factory=lambda: [0] * len(LANES))
    outcomes: Counter[str] = field(default_factory=Counter)
    # Where unsettled messages begin in each partition that has any.
    unsettled: list[Place] = field(default_factory=list)

    def add(self, partition: Partition, figures: QueueFigures) -> None:
        seen = figures.seen
        for lane, of_lane in zip(LANES, seen.lanes, strict=True):
            for name, _, read_lane in _LANE_GAUGES:
                self.lanes[name][lane] += read_lane(of_lane)
            self.delivered[lane] += of_lane.dequeued
        self.dying += seen.dying
        if seen.totals is not None:
            for name, read_total in _OUTCOMES:
                self.outcomes[name] += read_total(seen.totals)
        if seen.ready or seen.in_flight or seen.waiting:
            self.unsettled.append(Place(partition, seen.floor))


async def read(broker: Node, pace: Pace, ages: Ages) -> Families:
    sums: dict[_Key, _Sum] = {}
    redriven: dict[tuple[str, int], int] = {}
    for figures in queue_figures(broker, broker.queues):
        key = (figures.topic, figures.seen.queue.group)
        sums.setdefault(key, _Sum()).add(figures.partition, figures)
        if key[1] == REDRIVE_GROUP:
            redriven[figures.topic, figures.seen.queue.partition] = figures.seen.floor
        if pace.is_over:
            await pace.rest()
    shown = {key: sums[key] for key in sorted(sums)[: bounds.QUEUES_WITH_SERIES_MAX]}
    oldest = await ages.oldest(_unsettled(shown), broker.clock_ms())
    dead_letters = _dead_letters(broker, redriven)

    def families() -> Iterable[Metric]:
        yield from _depths(shown)
        yield from _outcomes(shown)
        yield gauges(
            "goqueue_queue_oldest_message_age_seconds",
            "Age of the oldest message of a queue that is not settled; 0 without any.",
            ("topic", "group"),
            (
                (key, oldest.get(key, 0))
                for key, each in shown.items()
                if key in oldest or not each.unsettled
            ),
        )
        yield gauge(
            "goqueue_queues_without_series",
            "Queues (topics as a group reads them) beyond the bound, which have no series.",
            len(sums) - len(shown),
        )
        yield from dead_letters()

    return families


def _unsettled(shown: Mapping[_Key, _Sum]) -> Iterator[tuple[_Key, Place]]:
    for key, each in shown.items():
        for place in each.unsettled:
            yield key, place


def _depths(shown: Mapping[_Key, _Sum]) -> Iterable[Metric]:
    for name, doc, _ in _LANE_GAUGES:
        yield gauges(
            f"goqueue_queue_{name}_messages",
            doc,
            ("topic", "group", "priority"),
            _by_lane((key, each.lanes[name]) for key, each in shown.items()),
        )
    yield gauges(
        "goqueue_queue_dying_messages",
        "Messages on their way to the dead letters.",
        ("topic", "group"),
        ((key, each.dying) for key, each in shown.items()),
    )


def _outcomes(shown: Mapping[_Key, _Sum]) -> Iterable[Metric]:
    yield counters(
        "goqueue_queue_delivered_messages",
        "Messages delivered since the start, repeated deliveries included.",
        ("topic", "group", "priority"),
        _by_lane((key, each.delivered) for key, each in shown.items()),
    )
    yield counters(
        "goqueue_queue_outcomes",
        "What became of deliveries since the start.",
        ("topic", "group", "outcome"),
        (
            ((*key, outcome), each.outcomes[outcome])
            for key, each in shown.items()
            for outcome, _ in _OUTCOMES
        ),
    )


def _by_lane(rows: Iterable[tuple[_Key, Sequence[int]]]) -> Iterator[tuple[Labels, int]]:
    for key, counts in rows:
        for lane in LANES:
            yield (*key, lane.name.lower()), counts[lane]


def _dead_letters(broker: Node, redriven: Mapping[tuple[str, int], int]) -> Families:
    counts = broker.queues.dead_letters
    written, sent_back = dict(counts.written), dict(counts.sent_back)
    pending: Counter[str] = Counter()
    for partition in broker.hosted:
        topic, index = partition.name
        if is_dead_letter_topic(topic):
            start = max(partition.log_start_offset, redriven.get((topic, index), 0))
            pending[topic] += max(0, partition.high_watermark - start)
    limit = bounds.TOPICS_WITH_SERIES_MAX

    def families() -> Iterable[Metric]:
        yield counters(
            "goqueue_dead_letters",
            "Messages copied to a dead-letter topic since the start.",
            ("topic", "dead_letter_topic", "reason"),
            sorted(written.items())[:limit],
        )
        yield counters(
            "goqueue_dead_letters_sent_back",
            "Dead letters sent back to where they came from since the start.",
            ("dead_letter_topic",),
            (((topic,), count) for topic, count in sorted(sent_back.items())[:limit]),
        )
        yield gauges(
            "goqueue_dead_letters_pending",
            "Messages in a topic's own dead-letter topic that were not sent back.",
            ("dead_letter_topic",),
            (((topic,), count) for topic, count in sorted(pending.items())[:limit]),
        )
        left_out = sum(max(0, len(each) - limit) for each in (written, sent_back, pending))
        yield gauge(
            "goqueue_dead_letters_without_series",
            "Counts of dead letters beyond the bound, which have no series.",
            left_out,
        )

    return families
