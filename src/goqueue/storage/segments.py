"""The row of segments that makes up a log, and what becomes of those that leave it."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from goqueue.storage.damage import Damage
from goqueue.storage.segment import Segment
from goqueue.storage.segment_home import SegmentHome

_BASE_OFFSET = attrgetter("base_offset")


class SegmentRow:
    """Segments by base offset, never empty; the last one is active (takes appends).

    Changed by the appending thread; the tuple is replaced whole, so other threads may look. The
    files of removed segments stay a while for readers that are about to open them.
    """

    __slots__ = ("_home", "_removed", "active", "all", "index_interval_bytes")

    def __init__(
        self, home: SegmentHome, segments: Sequence[Segment], index_interval_bytes: int
    ) -> None:
        self.all = tuple(segments)
        self.active = self.all[-1]
        self.index_interval_bytes = index_interval_bytes
        self._home = home
        self._removed: deque[tuple[int, Segment]] = deque()

    @property
    def size_bytes(self) -> int:
        if len(self.all) == 1:
            # As most have, and brokers are asked for the sizes of all partitions.
            return self.active.size_bytes
        return sum(segment.size_bytes for segment in self.all)

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(damage for segment in self.all for damage in segment.damage)

    @property
    def has_removed(self) -> bool:
        """Whether `purge` has something to delete, now or later."""
        return bool(self._removed)

    def find(self, offset: int) -> Segment | None:
        """The segment that has this offset or would; None below the first."""
        segments = self.all
        if offset >= segments[-1].base_offset:
            return segments[-1]
        number = bisect_right(segments, offset, key=_BASE_OFFSET) - 1
        return segments[number] if number >= 0 else None

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment and begin the next."""
        segment = self._create(self.active.next_offset, now_ms)
        self.active.close_for_appends()
        self._replace((*self.all, segment))
        return segment

    def sync_from(self, offset: int) -> int:
        """Make what was appended at or above `offset` durable before this call.

        Returns the base offset of the then active segment: those before it are on disk as a whole.
        """
        segments = self.all
        for segment in segments:
            if segment.next_offset > offset:
                segment.sync()
        return segments[-1].base_offset

    def remove_oldest(self, count: int, *, due_ms: int) -> int:
        """Take segments out of the log, with their files until `due_ms`; return their size."""
        removed = self.all[:count]
        self._replace(self.all[count:])
        for segment in removed:
            segment.mark_deleted()
            self._removed.append((due_ms, segment))
        return sum(segment.size_bytes for segment in removed)

    def exchange(self, old: Sequence[Segment], new: Segment, *, due_ms: int) -> None:
        """Put `new` into the place of neighbours with the same offsets.

        The names of the files were changed before; those of `old` stay until `due_ms`.
        """
        first = self.all.index(old[0])
        self._replace((*self.all[:first], new, *self.all[first + len(old) :]))
        self._removed.extend((due_ms, segment) for segment in old)

    def purge(self, now_ms: int) -> None:
        """Delete the files that are due. What fails stays and is tried again."""
        while self._removed and self._removed[0][0] <= now_ms:
            self._removed[0][1].remove()
            self._removed.popleft()

    def truncate(self, offset: int, *, start: int) -> None:
        """Remove the batch that holds `offset` and all after it.

        If nothing is left at or above `start`, the row begins anew there.
        """
        kept = [segment for segment in self.all if segment.base_offset <= offset]
        for segment in reversed(self.all[len(kept) :]):
            segment.remove()
        if kept:
            kept[-1].truncate(offset)
        if not kept or offset <= start or kept[-1].next_offset < start:
            for segment in kept:
                segment.remove()
            kept = [self._create(start, now_ms=0)]
        self._replace(kept)

    def begin_anew(self, offset: int) -> None:
        """Remove all, and go on at `offset` with an empty one."""
        for segment in reversed(self.all):
            segment.remove()
        self._replace([self._create(offset, now_ms=0)])

    def release(self) -> None:
        """Let go of open files."""
        for segment in self.all:
            segment.release()

    def _create(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self._home, base_offset, index_interval_bytes=self.index_interval_bytes)
        segment.create(now_ms)
        return segment

    def _replace(self, segments: Sequence[Segment]) -> None:
        self.all = tuple(segments)
        self.active = self.all[-1]
