"""What of an earlier backup can be used again, and where copying a partition begins. Pure."""

from dataclasses import dataclass, replace

from goqueue.backup.manifest import Chunk, Manifest, PartitionCopy, Place
from goqueue.model.backups import CutPartition


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """`reusable` are chunks that hold the log's first offsets, if it is still the same log."""

    cut: CutPartition
    reusable: tuple[Chunk, ...] = ()
    # Where chunks of the earlier backup began.
    borders: frozenset[int] = frozenset()

    @property
    def place(self) -> Place:
        return Place(self.cut.topic, self.cut.partition)


def plan(cuts: list[CutPartition], earlier: Manifest | None) -> list[PartitionPlan]:
    """Whether the log still has the last batch of a reusable chunk is for the caller to ask."""
    known = _partitions(earlier)
    plans = []
    for cut in sorted(cuts, key=lambda each: (each.topic, each.partition)):
        copied = known.get((cut.topic_id.hex, cut.partition))
        if copied is None:
            plans.append(PartitionPlan(cut))
        else:
            borders = frozenset(chunk.first for chunk in copied.chunks)
            plans.append(PartitionPlan(cut, _reusable(cut, copied), borders))
    return plans


def later_start(found: PartitionPlan, start: int) -> PartitionPlan:
    """The same, when retention has deleted what lies before `start` meanwhile."""
    cut = replace(found.cut, start=min(start, found.cut.end))
    left = tuple(chunk for chunk in found.reusable if chunk.next > start)
    return PartitionPlan(cut, left, found.borders)


def _partitions(earlier: Manifest | None) -> dict[tuple[str, int], PartitionCopy]:
    """By topic id: a topic that was deleted and made again is another one."""
    if earlier is None:
        return {}
    return {
        (topic.id.hex, index): partition
        for topic in earlier.topics
        for index, partition in enumerate(topic.partitions)
    }


def _reusable(cut: CutPartition, copied: PartitionCopy) -> tuple[Chunk, ...]:
    """Full chunks in a row, from the one that holds the log's start on."""
    if cut.is_compacted or copied.start > cut.start:
        return ()
    found: list[Chunk] = []
    for chunk in copied.chunks:
        if chunk.next <= cut.start:
            continue
        if not chunk.is_full or chunk.next > cut.end:
            break
        found.append(chunk)
    return tuple(found)
