"""Aborted transactions: which batches of a log a reader of committed messages must leave out."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from goqueue.model.batch import BatchHeader


class AbortedTransaction(NamedTuple):
    """Everything that this producer wrote in transactions between these offsets is void.

    `last_offset` is that of the marker. Below `last_stable_offset` nothing was open when the
    marker came: what was aborted later begins there or after it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedBatches:
    """The batches of some aborted transactions, for any number of looks."""

    __slots__ = ("_ranges",)

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        # By producer, in the order of offsets: a producer has one transaction at a time.
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first_offset, last_offset, _ in transactions:
            self._ranges.setdefault(producer_id, []).append((first_offset, last_offset))
        for ranges in self._ranges.values():
            ranges.sort()

    def has(self, header: BatchHeader) -> bool:
        ranges = self._ranges.get(header.producer_id) if header.is_transactional else None
        if not ranges:
            return False
        number = bisect_right(ranges, header.base_offset, key=_first_offset) - 1
        return number >= 0 and header.base_offset <= ranges[number][1]


NOTHING_ABORTED: Final = AbortedBatches(())


def _first_offset(aborted: tuple[int, int]) -> int:
    return aborted[0]
