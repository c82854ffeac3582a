"""Figures of groups: members, state, and how far each is behind what it reads."""

from collections.abc import Iterator
from typing import NamedTuple

from goqueue.broker.groups.groups import Groups
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.partitions.partition import Partition


class PartitionLag(NamedTuple):
    partition: Partition
    committed_offset: int
    lag: int


class GroupFigures(NamedTuple):
    """`lags` are of the partitions with a committed offset; share groups commit none."""

    group_id: str
    kind: str
    state: str
    members: int
    is_rebalancing: bool
    lags: list[PartitionLag]


def group_figures(groups: Groups, hosted: HostedPartitions) -> Iterator[GroupFigures]:
    """Group by group, in no order; a group that goes meanwhile is left out."""
    for shard in groups.state.loaded_shards():
        for group_id in shard.machine.group_ids():
            seen = shard.machine.look(group_id)
            if seen is None:
                continue
            yield GroupFigures(
                group_id=group_id,
                kind=seen.kind.value.lower(),
                state=seen.state,
                members=seen.members,
                is_rebalancing=groups.rebalances.is_in_progress(group_id),
                lags=[
                    PartitionLag(partition, at.offset, max(0, partition.high_watermark - at.offset))
                    for topic, offsets in seen.committed.items()
                    for index, at in offsets.items()
                    if (partition := hosted.get(topic, index)) is not None
                ],
            )
