"""What is remembered of traced messages, bounded: their traces, and who has them in hand.

Most could be found out again from offset and headers. Not so for messages that are traced for
another reason than their offset: because the producer asked, or as copies of a traced message.
"""

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from typing import NamedTuple

from goqueue.model.tracing.spans import TraceContext


class ContextTable:
    """Traces by partition key and offset; the longest unused are forgotten."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._contexts: OrderedDict[tuple[int, int], TraceContext] = OrderedDict()
        # Offsets that sampling does not choose, by partition, in order.
        self._adopted: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._contexts)

    def get(self, key: int, offset: int) -> TraceContext | None:
        context = self._contexts.get((key, offset))
        if context is not None:
            self._contexts.move_to_end((key, offset))
        return context

    def keep(self, key: int, offset: int, context: TraceContext) -> None:
        self._contexts[key, offset] = context
        self._contexts.move_to_end((key, offset))
        while len(self._contexts) > self._size:
            (old_key, old_offset), _ = self._contexts.popitem(last=False)
            self._disown(old_key, old_offset)

    def adopt(self, key: int, offset: int, context: TraceContext) -> None:
        """Keep the trace of a message that is to be traced whatever sampling says."""
        offsets = self._adopted.setdefault(key, [])
        at = bisect_left(offsets, offset)
        if at == len(offsets) or offsets[at] != offset:
            insort(offsets, offset)
        self.keep(key, offset, context)

    def adopted(self, key: int, start: int, end: int) -> list[int]:
        """Offsets in [start, end) that were adopted, in order."""
        offsets = self._adopted.get(key)
        if not offsets:
            return []
        return offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]

    def _disown(self, key: int, offset: int) -> None:
        offsets = self._adopted.get(key)
        if not offsets:
            return
        at = bisect_left(offsets, offset)
        if at < len(offsets) and offsets[at] == offset:
            del offsets[at]
            if not offsets:
                del self._adopted[key]


class Taken(NamedTuple):
    """A delivery that is not settled yet."""

    time_us: int
    consumer: str | None
    delivery_count: int | None


class DeliveryTable:
    """Deliveries by partition key, offset and group; the oldest are forgotten."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: OrderedDict[tuple[int, int, str], Taken] = OrderedDict()

    def take(self, key: int, offset: int, group: str, taken: Taken) -> None:
        self._taken[key, offset, group] = taken
        if len(self._taken) > self._size:
            self._taken.popitem(last=False)

    def get(self, key: int, offset: int, group: str) -> Taken | None:
        return self._taken.get((key, offset, group))

    def end(self, key: int, offset: int, group: str) -> Taken | None:
        return self._taken.pop((key, offset, group), None)


class RecentOffsets:
    """Offsets that were read last, the oldest reads forgotten; found without going through all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_time: deque[int] = deque()
        self._in_order: list[int] = []

    def add(self, offset: int) -> None:
        self._by_time.append(offset)
        insort(self._in_order, offset)
        if len(self._by_time) > self._size:
            del self._in_order[bisect_left(self._in_order, self._by_time.popleft())]

    def between(self, start: int, end: int) -> list[int]:
        """Those in [start, end), each once, in order."""
        found = self._in_order
        return sorted({*found[bisect_left(found, start) : bisect_left(found, end)]})
