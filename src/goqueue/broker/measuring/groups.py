"""Figures of groups: members, state, how far each is behind what it reads, and rebalances."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.broker.groups.groups import Groups
from goqueue.broker.measuring.ages import Ages, StoredAt
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.measuring.figures import (
    AllGroupFigures,
    GroupFigures,
    GroupTopic,
    PartitionLag,
    RebalanceFigures,
)
from goqueue.pace import Pace


class _Behind(NamedTuple):
    """A group, with the partitions that it is behind in and where it has got to."""

    figures: GroupFigures
    uncommitted: list[StoredAt]


async def read_groups(
    groups: Groups,
    hosted: HostedPartitions,
    *,
    pace: Pace,
    ages: Ages,
    now_ms: int,
    detailed_max: int,
) -> AllGroupFigures:
    """Ages and rebalances are read of as many groups as `detailed_max`, the first by id."""
    found: list[_Behind] = []
    for each in _read(groups, hosted):
        found.append(each)
        if pace.is_over:
            await pace.rest()
    found.sort(key=lambda each: each.figures.group_id)
    detailed = found[:detailed_max]
    rebalances = _rebalances(groups, (each.figures.group_id for each in detailed))
    oldest = await ages.oldest(_uncommitted(detailed), now_ms)
    return AllGroupFigures([each.figures for each in found], oldest, rebalances)


def _read(groups: Groups, hosted: HostedPartitions) -> Iterator[_Behind]:
    """Group by group, in no order; a group that goes meanwhile is left out."""
    for shard in groups.state.loaded_shards():
        for group_id in shard.machine.group_ids():
            seen = shard.machine.look(group_id)
            if seen is None:
                continue
            committed = [
                (partition, at.offset)
                for topic, offsets in seen.committed.items()
                for index, at in offsets.items()
                if (partition := hosted.get(topic, index)) is not None
            ]
            figures = GroupFigures(
                group_id=group_id,
                kind=seen.kind.value.lower(),
                state=seen.state,
                members=seen.members,
                is_rebalancing=groups.rebalances.is_in_progress(group_id),
                lags=[PartitionLag(*p.name, at, _lag(p, at)) for p, at in committed],
            )
            yield _Behind(figures, [StoredAt(p, at) for p, at in committed if _lag(p, at)])


def _lag(partition: HostedPartition, committed_offset: int) -> int:
    return max(0, partition.high_watermark - committed_offset)


def _uncommitted(groups: Iterable[_Behind]) -> Iterator[tuple[GroupTopic, StoredAt]]:
    for figures, uncommitted in groups:
        for at in uncommitted:
            yield GroupTopic(figures.group_id, at.partition.name.topic), at


def _rebalances(groups: Groups, detailed: Iterable[str]) -> RebalanceFigures:
    stats = groups.rebalances
    return RebalanceFigures(
        by_reason={each.value: stats.total.by_reason.get(each, 0) for each in RebalanceReason},
        by_group=[
            (group_id, {each.value: n for each, n in stats.group(group_id).by_reason.items()})
            for group_id in detailed
        ],
        completed=stats.total.completed,
        partitions_moved=stats.total.partitions_moved,
        durations=stats.durations.figures(),
    )
