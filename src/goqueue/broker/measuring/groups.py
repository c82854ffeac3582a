"""Figures of groups: members, state, how far each is behind what it reads, and rebalances."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from goqueue.broker.groups.groups import Groups
from goqueue.broker.measuring.ages import Ages, StoredAt
from goqueue.broker.measuring.behind import Behind, BehindElsewhere, CommittedAt
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
from goqueue.state.groups.coordinator import GroupLook


class _Seen(NamedTuple):
    """A group, and what it has committed."""

    group_id: str
    look: GroupLook
    committed: list[CommittedAt]


class _Measured(NamedTuple):
    """A group, with where it has got to in the partitions that it is behind in."""

    figures: GroupFigures
    uncommitted: list[CommittedAt]


async def read_groups(
    groups: Groups,
    hosted: HostedPartitions,
    elsewhere: BehindElsewhere,
    *,
    pace: Pace,
    ages: Ages,
    now_ms: int,
    detailed_max: int,
) -> AllGroupFigures:
    """Of the groups that this broker coordinates. Ages and rebalances are read of as many groups
    as `detailed_max`, the first by id."""
    seen: list[_Seen] = []
    for each in _look(groups):
        seen.append(each)
        if pace.is_over:
            await pace.rest()
    seen.sort(key=lambda each: each.group_id)
    told = await elsewhere.ask(
        at for each in seen for at in each.committed if hosted.get(*at[:2]) is None
    )
    found: list[_Measured] = []
    for each in seen:
        found.append(_measured(each, groups, hosted, told))
        if pace.is_over:
            await pace.rest()
    detailed = found[:detailed_max]
    rebalances = _rebalances(groups, (each.figures.group_id for each in detailed))
    oldest = dict(await ages.oldest(_stored(detailed, hosted), now_ms))
    for of, age_seconds in _told_ages(detailed, told):
        oldest[of] = max(oldest.get(of, 0.0), age_seconds)
    return AllGroupFigures([each.figures for each in found], oldest, rebalances)


def _look(groups: Groups) -> Iterator[_Seen]:
    """Group by group, in no order; a group that goes meanwhile is left out."""
    for shard in groups.state.loaded_shards():
        for group_id in shard.machine.group_ids():
            look = shard.machine.look(group_id)
            if look is None:
                continue
            committed = [
                CommittedAt(topic, index, at.offset)
                for topic, offsets in look.committed.items()
                for index, at in offsets.items()
            ]
            yield _Seen(group_id, look, committed)


def _measured(
    seen: _Seen,
    groups: Groups,
    hosted: HostedPartitions,
    told: Mapping[CommittedAt, Behind],
) -> _Measured:
    """Without partitions of which nobody could tell where they end."""
    lags: list[PartitionLag] = []
    uncommitted: list[CommittedAt] = []
    for at in seen.committed:
        partition = hosted.get(at.topic, at.partition)
        if partition is not None:
            end = partition.high_watermark
        elif at in told:
            end = told[at].high_watermark
        else:
            continue
        lag = max(0, end - at.offset)
        lags.append(PartitionLag(*at, lag))
        if lag:
            uncommitted.append(at)
    figures = GroupFigures(
        group_id=seen.group_id,
        kind=seen.look.kind.value.lower(),
        state=seen.look.state,
        members=seen.look.members,
        is_rebalancing=groups.rebalances.is_in_progress(seen.group_id),
        lags=lags,
    )
    return _Measured(figures, uncommitted)


def _stored(
    groups: Iterable[_Measured], hosted: HostedPartitions
) -> Iterator[tuple[GroupTopic, StoredAt]]:
    for figures, uncommitted in groups:
        for at in uncommitted:
            partition = hosted.get(at.topic, at.partition)
            if partition is not None:
                yield GroupTopic(figures.group_id, at.topic), StoredAt(partition, at.offset)


def _told_ages(
    groups: Iterable[_Measured], told: Mapping[CommittedAt, Behind]
) -> Iterator[tuple[GroupTopic, float]]:
    for figures, uncommitted in groups:
        for at in uncommitted:
            behind = told.get(at)
            if behind is not None and behind.age_seconds is not None:
                yield GroupTopic(figures.group_id, at.topic), behind.age_seconds


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
