"""The row of segments that makes up a log."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from goqueue.storage.segment import Segment

_BASE_OFFSET = attrgetter("base_offset")


class SegmentRow:
    """Segments by base offset, never empty; the last one is active (takes appends).

    Changed by the appending thread; the tuple is replaced whole, so other threads may look.
    """

    __slots__ = ("active", "all")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.all = tuple(segments)
        self.active = self.all[-1]

    def replace(self, segments: Sequence[Segment]) -> None:
        self.all = tuple(segments)
        self.active = self.all[-1]

    def find(self, offset: int) -> Segment | None:
        """The segment that has this offset or would; None below the first."""
        segments = self.all
        if offset >= segments[-1].base_offset:
            return segments[-1]
        number = bisect_right(segments, offset, key=_BASE_OFFSET) - 1
        return segments[number] if number >= 0 else None
