"""Order within message groups (SQS FIFO): nothing of a group goes out while something of it is out.

Volatile: after a restart everything unacknowledged is ready again, so nothing is out.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueKey
from goqueue.model.records import Record


class FifoOrder:
    """Delivered and unsettled offsets of one queue, by message group (the record's key)."""

    def __init__(self) -> None:
        self._unsettled: dict[bytes | None, set[int]] = {}
        self._group_of: dict[int, bytes | None] = {}
        # From looking at what is ready until it is noted as delivered, one reader at a time: two
        # could else take neighbours of one group.
        self.taking = asyncio.Lock()

    def choose(
        self, ready: Sequence[Record], limit: int, is_unsettled: Callable[[int], bool]
    ) -> list[Record]:
        """The first messages, in order, whose groups have nothing else out."""
        ready_offsets = {record.offset for record in ready}
        is_blocked: dict[bytes | None, bool] = {}
        chosen: list[Record] = []
        for record in sorted(ready, key=lambda record: record.offset):
            if len(chosen) == limit:
                break
            group = record.key
            if group not in is_blocked:
                is_blocked[group] = self._is_blocked(group, ready_offsets, is_unsettled)
            if not is_blocked[group]:
                chosen.append(record)
        return chosen

    def _is_blocked(
        self, group: bytes | None, ready: set[int], is_unsettled: Callable[[int], bool]
    ) -> bool:
        for offset in self._unsettled.get(group, set()) - ready:
            if is_unsettled(offset):
                return True
            # It became a dead letter, or expired.
            self.settled(OffsetRange(offset, offset + 1))
        return False

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
