"""Groups: members, state, lag and rebalances."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from goqueue.broker.groups.rebalance_stats import RebalanceReason
from goqueue.broker.measuring.groups import GroupFigures, group_figures
from goqueue.broker.node import Node
from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.ages import Ages, Place
from goqueue.doors.http.metrics.families import (
    Families,
    counter,
    counters,
    gauge,
    gauges,
    histogram,
)
from goqueue.doors.http.metrics.pace import Pace
from goqueue.model.measuring.histograms import HistogramFigures

_Topic = tuple[str, str]


class _Rebalances(NamedTuple):
    total: Mapping[RebalanceReason, int]
    by_group: Sequence[tuple[str, Mapping[RebalanceReason, int]]]
    completed: int
    partitions_moved: int
    durations: HistogramFigures


async def read(broker: Node, pace: Pace, ages: Ages) -> Families:
    groups: list[GroupFigures] = []
    for figures in group_figures(broker.groups, broker.hosted):
        groups.append(figures)
        if pace.is_over:
            await pace.rest()
    groups.sort(key=lambda group: group.group_id)
    shown = groups[: bounds.GROUPS_WITH_SERIES_MAX]
    rebalances = _rebalances(broker, shown)
    oldest = await ages.oldest(_behind(shown), broker.clock_ms())

    def families() -> Iterable[Metric]:
        states = Counter((group.kind, group.state) for group in groups)
        yield gauges("goqueue_groups", "Groups.", ("kind", "state"), sorted(states.items()))
        yield gauge(
            "goqueue_groups_without_series",
            "Groups beyond the bound, which have no series of their own.",
            len(groups) - len(shown),
        )
        yield from _membership(shown)
        yield from _lags(shown, oldest)
        yield from _rebalance_families(rebalances)

    return families


def _behind(shown: Iterable[GroupFigures]) -> Iterator[tuple[_Topic, Place]]:
    for group in shown:
        for part in group.lags:
            if part.lag:
                place = Place(part.partition, part.committed_offset)
                yield (group.group_id, part.partition.name.topic), place


def _membership(shown: Sequence[GroupFigures]) -> Iterable[Metric]:
    yield gauges(
        "goqueue_group_info",
        "Always 1; the state of a group.",
        ("group", "kind", "state"),
        (((group.group_id, group.kind, group.state), 1) for group in shown),
    )
    yield gauges(
        "goqueue_group_members",
        "Members of a group.",
        ("group",),
        (((group.group_id,), group.members) for group in shown),
    )
    yield gauges(
        "goqueue_group_rebalancing",
        "1 while a group is on its way to a new assignment.",
        ("group",),
        (((group.group_id,), group.is_rebalancing) for group in shown),
    )


def _lags(shown: Sequence[GroupFigures], oldest: Mapping[_Topic, float]) -> Iterable[Metric]:
    by_topic: Counter[_Topic] = Counter()
    parts = [(group.group_id, part) for group in shown for part in group.lags]
    for group_id, part in parts:
        by_topic[group_id, part.partition.name.topic] += part.lag
    yield gauges(
        "goqueue_group_lag_messages",
        "Messages of a topic that a group has not committed yet.",
        ("group", "topic"),
        sorted(by_topic.items()),
    )
    yield gauges(
        "goqueue_group_oldest_uncommitted_age_seconds",
        "Age of the oldest message of a topic that a group has not committed yet; 0 without any.",
        ("group", "topic"),
        (
            (of, 0 if not lag else oldest[of])
            for of, lag in sorted(by_topic.items())
            if not lag or of in oldest
        ),
    )
    parts.sort(key=lambda each: (each[0], each[1].partition.name))
    listed = parts[: bounds.GROUP_PARTITIONS_WITH_SERIES_MAX]
    names = [(group_id, part.partition.name) for group_id, part in listed]
    labels = [(group_id, name.topic, str(name.partition)) for group_id, name in names]
    yield gauges(
        "goqueue_group_partition_lag_messages",
        "Messages of a partition that a group has not committed yet.",
        ("group", "topic", "partition"),
        zip(labels, (part.lag for _, part in listed), strict=True),
    )
    yield gauges(
        "goqueue_group_partition_committed_offset",
        "Offset up to which a group has committed a partition.",
        ("group", "topic", "partition"),
        zip(labels, (part.committed_offset for _, part in listed), strict=True),
    )
    yield gauge(
        "goqueue_group_partitions_without_series",
        "Partitions of the shown groups beyond the bound, which have no series of their own.",
        len(parts) - len(listed),
    )


def _rebalances(broker: Node, shown: Sequence[GroupFigures]) -> _Rebalances:
    stats = broker.groups.rebalances
    return _Rebalances(
        total=Counter(stats.total.by_reason),
        by_group=[
            (group.group_id, Counter(stats.group(group.group_id).by_reason)) for group in shown
        ],
        completed=stats.total.completed,
        partitions_moved=stats.total.partitions_moved,
        durations=stats.durations.figures(),
    )


def _rebalance_families(rebalances: _Rebalances) -> Iterable[Metric]:
    yield counters(
        "goqueue_rebalances",
        "Rebalances begun since the start, by reason.",
        ("reason",),
        (((reason.value,), rebalances.total.get(reason, 0)) for reason in RebalanceReason),
    )
    yield counters(
        "goqueue_group_rebalances",
        "Rebalances of a group begun since the start, by reason.",
        ("group", "reason"),
        (
            ((group_id, reason.value), count)
            for group_id, by_reason in rebalances.by_group
            for reason, count in sorted(by_reason.items())
        ),
    )
    yield counter(
        "goqueue_rebalances_completed",
        "Rebalances that reached a new assignment.",
        rebalances.completed,
    )
    yield counter(
        "goqueue_rebalance_partitions_moved",
        "Partitions that got a new reader.",
        rebalances.partitions_moved,
    )
    yield histogram(
        "goqueue_rebalance_duration_seconds",
        "From the start of a rebalance to its new assignment.",
        rebalances.durations,
    )
