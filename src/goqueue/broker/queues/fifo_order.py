"""Order within message groups (SQS FIFO): nothing of a group goes out while something before it is.

Volatile: after a restart everything unacknowledged is ready again, so nothing is out.
"""

import asyncio
from collections.abc import Callable, Iterable

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueKey
from goqueue.model.records import Record
from goqueue.state.queues.range_set import RangeSet


class FifoOrder:
    """Delivered and unsettled offsets of one queue, by message group (the record's key)."""

    def __init__(self) -> None:
        self._unsettled: dict[bytes | None, set[int]] = {}
        self._group_of: dict[int, bytes | None] = {}
        # From looking at what is ready until it is noted as delivered, one reader at a time: two
        # could else take neighbours of one group.
        self.taking = asyncio.Lock()

    def first_out(
        self, group: bytes | None, ready: RangeSet, is_unsettled: Callable[[int], bool]
    ) -> int | None:
        """The first message of a group that is with a reader. Those that came back are not."""
        for offset in sorted(self._unsettled.get(group, ())):
            if offset in ready:
                continue
            if is_unsettled(offset):
                return offset
            # It became a dead letter, or expired.
            self.settled(OffsetRange(offset, offset + 1))
        return None

    def delivered(self, records: Iterable[Record]) -> None:
        for record in records:
            self._group_of[record.offset] = record.key
            self._unsettled.setdefault(record.key, set()).add(record.offset)

    def settled(self, offsets: OffsetRange) -> None:
        for offset in range(*offsets):
            if offset in self._group_of:
                group = self._group_of.pop(offset)
                left = self._unsettled[group]
                left.discard(offset)
                if not left:
                    del self._unsettled[group]


class FifoChoice:
    """What one reader may take of what is ready: as many of one group as it can, then of the next.

    Messages are offered in the order of offsets. At most `limit` of each group are kept, and of no
    more groups than that.
    """

    def __init__(
        self,
        order: FifoOrder,
        ready: Iterable[OffsetRange],
        limit: int,
        is_unsettled: Callable[[int], bool],
    ) -> None:
        self._order = order
        self._ready = RangeSet(ready)
        self._limit = limit
        self._is_unsettled = is_unsettled
        self._groups: dict[bytes | None, list[Record]] = {}
        # Where the first message that is out stands, of the groups looked at.
        self._first_out: dict[bytes | None, int | None] = {}

    def offer(self, records: Iterable[Record]) -> None:
        for record in records:
            group = record.key
            if group not in self._first_out:
                self._first_out[group] = self._order.first_out(
                    group, self._ready, self._is_unsettled
                )
            first_out = self._first_out[group]
            if first_out is not None and first_out < record.offset:
                continue
            kept = self._groups.get(group)
            if kept is None:
                if len(self._groups) == self._limit:
                    continue
                kept = self._groups[group] = []
            if len(kept) < self._limit:
                kept.append(record)

    @property
    def is_complete(self) -> bool:
        """Whether its first group fills it, so that others would change nothing."""
        first = next(iter(self._groups.values()), ())
        return len(first) == self._limit

    def chosen(self) -> list[Record]:
        return [record for group in self._groups.values() for record in group][: self._limit]


class FifoOrders:
    """The orders of all queues that were read in order."""

    def __init__(self) -> None:
        self._orders: dict[QueueKey, FifoOrder] = {}

    def __contains__(self, key: QueueKey) -> bool:
        return key in self._orders

    def of(self, key: QueueKey) -> FifoOrder:
        return self._orders.setdefault(key, FifoOrder())

    def settled(self, key: QueueKey, gone: Iterable[OffsetRange]) -> None:
        """Messages left the queue for good, in whatever way."""
        order = self._orders.get(key)
        if order is not None:
            for offsets in gone:
                order.settled(offsets)

    def forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        self._orders = {key: order for key, order in self._orders.items() if not concerns(key)}
