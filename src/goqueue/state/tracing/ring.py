"""The newest spans, in memory."""

from collections import deque
from collections.abc import Iterator

from goqueue.model.tracing.spans import Span


class SpanRing:
    def __init__(self, size: int) -> None:
        self._spans: deque[Span] = deque(maxlen=size)
        self.recorded = 0

    @property
    def size(self) -> int:
        assert self._spans.maxlen is not None
        return self._spans.maxlen

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, span: Span) -> None:
        """The oldest goes when the ring is full."""
        self._spans.append(span)
        self.recorded += 1

    def newest_first(self) -> Iterator[Span]:
        return reversed(self._spans)
