"""Order within message groups (SQS FIFO): nothing of a group goes out while something of it is out.

Volatile: after a restart everything unacknowledged is ready again, so nothing is out.
"""

from collections.abc import Iterable, Sequence

from goqueue.model.records import Record
from goqueue.state.priority import Span


class FifoOrder:
    """Delivered and unsettled offsets of one queue, by message group (the record's key)."""

    def __init__(self) -> None:
        self._unsettled: dict[bytes | None, set[int]] = {}
        self._group_of: dict[int, bytes | None] = {}

    def choose(self, ready: Sequence[Record], limit: int) -> list[Record]:
        """The first messages, in order, whose groups have nothing else out."""
        ready_offsets = {record.offset for record in ready}
        blocked = {
            group for group, offsets in self._unsettled.items() if not offsets <= ready_offsets
        }
        chosen: list[Record] = []
        for record in sorted(ready, key=lambda record: record.offset):
            if len(chosen) == limit:
                break
            if record.key not in blocked:
                chosen.append(record)
        return chosen

    def delivered(self, records: Iterable[Record]) -> None:
        for record in records:
            self._group_of[record.offset] = record.key
            self._unsettled.setdefault(record.key, set()).add(record.offset)

    def settled(self, span: Span) -> None:
        for offset in range(span.start, span.end):
            if offset in self._group_of:
                group = self._group_of.pop(offset)
                offsets = self._unsettled[group]
                offsets.discard(offset)
                if not offsets:
                    del self._unsettled[group]
