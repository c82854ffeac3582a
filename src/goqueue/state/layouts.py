"""Splits of a topic's partitions that keep the order of keys: which are allowed, how they go on.

    whole -- split --> draining -- every parent's end is known --> whole, with children

While it drains, producers learn of the split, and what they had on its way to a parent arrives. Who
may read a child is told by `withheld` (`model/layouts.py`), which clients use as well. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goqueue.model.errors import Conflict, InvalidPartitions
from goqueue.model.layouts import Split

Splits = tuple[Split, ...]


def ordered_split(
    topic: str, splits: Splits, *, current: int, total: int, now_ms: int, drain_ms: int
) -> Splits:
    """The splits with a new one into `total` partitions."""
    check_settled(topic, splits)
    if total <= current or total % current:
        raise InvalidPartitions(
            f"topic {topic!r} has {current} partitions: the order of keys is kept only with a "
            f"multiple of it, such as {2 * current}, not with {total}; partition.growth=plain "
            "gives it up, as Kafka does"
        )
    return (
        *splits,
        Split(
            epoch=_next_epoch(splits),
            parents=current,
            partitions=total,
            since_ms=now_ms,
            drain_ms=drain_ms,
        ),
    )


def plain_growth(topic: str, splits: Splits, *, current: int, total: int, now_ms: int) -> Splits:
    """As in Kafka. It is noted only where an earlier split would else be misunderstood."""
    check_settled(topic, splits)
    if not splits:
        return ()
    made = Split(
        epoch=_next_epoch(splits),
        parents=current,
        partitions=total,
        is_ordered=False,
        since_ms=now_ms,
    )
    return (*splits, made)


def check_settled(topic: str, splits: Splits) -> None:
    if splits and splits[-1].is_draining:
        raise Conflict(
            f"topic {topic!r} is being split into {splits[-1].partitions} partitions; try again "
            f"when its producers have learnt of it, after scale.drain.ms "
            f"({splits[-1].drain_ms} ms)"
        )


def with_ends(splits: Splits, epoch: int, ends: Mapping[int, int]) -> Splits:
    """The splits with ends that leaders tell. An end that is known stays: readers went by it."""
    return tuple(
        replace(split, ends={**ends, **split.ends}) if split.epoch == epoch else split
        for split in splits
    )


def with_lower_ends(splits: Splits, epoch: int, ends: Mapping[int, int]) -> Splits:
    """The splits with ends that leaders tell again: nothing is left to read above them, up to where
    they were. Who was through with a parent still is."""
    return tuple(
        replace(split, ends={p: min(end, ends.get(p, end)) for p, end in split.ends.items()})
        if split.epoch == epoch
        else split
        for split in splits
    )


def readable(count: int, held: frozenset[int]) -> Sequence[int]:
    """The partitions of a topic without those that are withheld."""
    if not held:
        return range(count)
    return [index for index in range(count) if index not in held]


def ends_of(splits: Splits, parent: int) -> list[int]:
    """All ends that open a child of this parent, one of each split."""
    return [split.ends[parent] for split in splits if parent in split.ends]


def _next_epoch(splits: Splits) -> int:
    return splits[-1].epoch + 1 if splits else 1
