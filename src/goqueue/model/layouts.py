"""How a topic came to its number of partitions: splits that keep the order of keys.

A key's partition is its hash modulo the number of partitions, N. After a split into k times N, the
key stays in its partition p or moves to one *child* q of p, with q modulo N = p. Whatever was
written of it before lies in p, below the *end* that p had when producers had learnt of the split.
So whoever reads p up to there before it reads q sees the key's messages in the order sent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

# A read-only setting of topics, in which clients of the Kafka port find the splits.
LAYOUT_SETTING: Final = "partition.layout"

# Whether a reader is through with a parent up to this offset.
IsThrough = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One growth of a topic. `ends` has the end of each parent once its leader has told it;
    while one is missing, the split is draining. Where the order of keys is not kept, as in Kafka,
    there are no parents and nothing to wait for."""

    # The first split of a topic is 1.
    epoch: int
    parents: int
    partitions: int
    is_ordered: bool = True
    # When it was asked for, by the clock of the broker that was asked; told to people only.
    since_ms: int = 0
    # How long producers have to learn of it.
    drain_ms: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_draining(self) -> bool:
        return self.is_ordered and len(self.ends) < self.parents

    @property
    def children(self) -> range:
        """Partitions that wait for a parent: those that this split made, if it keeps the order."""
        return range(self.parents, self.partitions) if self.is_ordered else range(0)

    def parent_of(self, index: int) -> int | None:
        """None of a partition that is no child of this split."""
        return index % self.parents if index in self.children else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a partition comes from; `parent_end` is None while the split is draining."""

    partition: int
    epoch: int
    parent: int | None
    parent_end: int | None


def lineage(splits: tuple[Split, ...], partitions: int) -> list[Lineage]:
    """Of every partition of a topic."""
    made_by = {index: split for split in splits for index in range(split.parents, split.partitions)}
    return [_lineage(made_by.get(index), index) for index in range(partitions)]


def _lineage(split: Split | None, index: int) -> Lineage:
    if split is None:
        return Lineage(partition=index, epoch=0, parent=None, parent_end=None)
    parent = split.parent_of(index)
    return Lineage(
        partition=index,
        epoch=split.epoch,
        parent=parent,
        parent_end=None if parent is None else split.ends.get(parent),
    )


def withheld(splits: tuple[Split, ...], is_through: IsThrough) -> frozenset[int]:
    """Children that a reader must not get yet: it is not through with the parent up to its end, or
    with what the parent itself was split off."""
    held: set[int] = set()
    for split in splits:
        if not split.is_ordered:
            continue
        closed = {
            parent
            for parent in range(split.parents)
            if parent in held or not _is_open(split, parent, is_through)
        }
        held.update(child for child in split.children if child % split.parents in closed)
    return frozenset(held)


def _is_open(split: Split, parent: int, is_through: IsThrough) -> bool:
    end = split.ends.get(parent)
    # An end of 0 is that of a parent in which nothing was left to read.
    return end is not None and (end == 0 or is_through(parent, end))


def layout_text(splits: tuple[Split, ...]) -> str:
    return msgspec.json.encode(splits).decode()


def splits_in(text: str) -> tuple[Split, ...]:
    return msgspec.json.decode(text, type=tuple[Split, ...])
