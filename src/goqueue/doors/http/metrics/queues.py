"""Topics read as queues: what is ready, leased and waiting by priority, and what became of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.families import Labels, counters, gauge, gauges
from goqueue.model.measuring.figures import (
    AllQueueFigures,
    DeadLetterFigures,
    QueueFigures,
    QueueName,
)
from goqueue.model.queues.lanes import LANES

_LANE_GAUGES: Final[Sequence[tuple[str, str, Callable[[QueueFigures], Sequence[int]]]]] = (
    ("ready", "Messages that a receive would get now.", lambda q: q.ready),
    ("in_flight", "Messages that consumers have leased.", lambda q: q.in_flight),
    (
        "retry_wait",
        "Messages that failed and wait for their next try.",
        lambda q: q.waiting,
    ),
)


def families(figures: AllQueueFigures) -> Iterable[Metric]:
    names = list(figures.queues)[: bounds.QUEUES_WITH_SERIES_MAX]
    shown = {name: figures.queues[name] for name in names}
    oldest = figures.oldest_unsettled_seconds
    yield from _depths(shown)
    yield from _outcomes(shown)
    yield gauges(
        "goqueue_queue_oldest_message_age_seconds",
        "Age of the oldest message of a queue that is not settled; 0 without any.",
        ("topic", "group"),
        (
            (name, oldest.get(name, 0))
            for name, queue in shown.items()
            if name in oldest or not queue.has_unsettled
        ),
    )
    yield gauge(
        "goqueue_queues_without_series",
        "Queues (topics as a group reads them) beyond the bound, which have no series.",
        len(figures.queues) - len(shown),
    )
    yield from _dead_letters(figures.dead_letters)


def _depths(shown: Mapping[QueueName, QueueFigures]) -> Iterable[Metric]:
    for name, doc, of in _LANE_GAUGES:
        yield gauges(
            f"goqueue_queue_{name}_messages",
            doc,
            ("topic", "group", "priority"),
            _by_lane((key, of(queue)) for key, queue in shown.items()),
        )
    yield gauges(
        "goqueue_queue_dying_messages",
        "Messages on their way to the dead letters.",
        ("topic", "group"),
        ((key, queue.dying) for key, queue in shown.items()),
    )


def _outcomes(shown: Mapping[QueueName, QueueFigures]) -> Iterable[Metric]:
    yield counters(
        "goqueue_queue_delivered_messages",
        "Messages delivered since the start, repeated deliveries included.",
        ("topic", "group", "priority"),
        _by_lane((key, queue.delivered) for key, queue in shown.items()),
    )
    yield counters(
        "goqueue_queue_outcomes",
        "What became of deliveries since the start.",
        ("topic", "group", "outcome"),
        (
            ((*key, outcome), count)
            for key, queue in shown.items()
            for outcome, count in queue.outcomes.items()
        ),
    )


def _by_lane(rows: Iterable[tuple[QueueName, Sequence[int]]]) -> Iterator[tuple[Labels, int]]:
    for key, counts in rows:
        for lane in LANES:
            yield (*key, lane.name.lower()), counts[lane]


def _dead_letters(figures: DeadLetterFigures) -> Iterable[Metric]:
    limit = bounds.TOPICS_WITH_SERIES_MAX
    yield counters(
        "goqueue_dead_letters",
        "Messages copied to a dead-letter topic since the start.",
        ("topic", "dead_letter_topic", "reason"),
        sorted(figures.written.items())[:limit],
    )
    yield counters(
        "goqueue_dead_letters_sent_back",
        "Dead letters sent back to where they came from since the start.",
        ("dead_letter_topic",),
        (((topic,), count) for topic, count in sorted(figures.sent_back.items())[:limit]),
    )
    yield gauges(
        "goqueue_dead_letters_pending",
        "Messages in a topic's own dead-letter topic that were not sent back.",
        ("dead_letter_topic",),
        (((topic,), count) for topic, count in sorted(figures.pending.items())[:limit]),
    )
    yield gauge(
        "goqueue_dead_letters_without_series",
        "Counts of dead letters beyond the bound, which have no series.",
        sum(max(0, len(each) - limit) for each in figures),
    )
