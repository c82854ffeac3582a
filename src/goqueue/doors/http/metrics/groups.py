"""Groups: members, state, lag and rebalances."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics import bounds
from goqueue.doors.http.metrics.families import counter, counters, gauge, gauges, histogram
from goqueue.model.measuring.figures import (
    AllGroupFigures,
    GroupFigures,
    GroupTopic,
    RebalanceFigures,
)


def families(figures: AllGroupFigures) -> Iterable[Metric]:
    groups = figures.groups
    shown = groups[: bounds.GROUPS_WITH_SERIES_MAX]
    states = Counter((group.kind, group.state) for group in groups)
    yield gauges("goqueue_groups", "Groups.", ("kind", "state"), sorted(states.items()))
    yield gauge(
        "goqueue_groups_without_series",
        "Groups beyond the bound, which have no series of their own.",
        len(groups) - len(shown),
    )
    yield from _membership(shown)
    yield from _lags(shown, figures.oldest_uncommitted_seconds)
    yield from _rebalances(figures.rebalances)


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


def _lags(shown: Sequence[GroupFigures], oldest: Mapping[GroupTopic, float]) -> Iterable[Metric]:
    by_topic: Counter[GroupTopic] = Counter()
    parts = [(group.group_id, part) for group in shown for part in group.lags]
    for group_id, part in parts:
        by_topic[GroupTopic(group_id, part.topic)] += part.lag
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
    parts.sort(key=lambda each: (each[0], each[1].topic, each[1].partition))
    listed = parts[: bounds.GROUP_PARTITIONS_WITH_SERIES_MAX]
    labels = [(group_id, part.topic, str(part.partition)) for group_id, part in listed]
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


def _rebalances(rebalances: RebalanceFigures) -> Iterable[Metric]:
    yield counters(
        "goqueue_rebalances",
        "Rebalances begun since the start, by reason.",
        ("reason",),
        (((reason,), count) for reason, count in rebalances.by_reason.items()),
    )
    yield counters(
        "goqueue_group_rebalances",
        "Rebalances of a group begun since the start, by reason.",
        ("group", "reason"),
        (
            ((group_id, reason), count)
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
