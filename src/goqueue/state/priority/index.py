"""Where the messages of each lane are: ranges of offsets of all lanes but the normal one."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.lanes import LANES, Lane

# A chunk is what is stored under one key. Only the last one is still written to, so this bounds
# what is written again and again while the log grows: 64 K offsets, 300 KB at the very worst.
INDEX_CHUNK_OFFSETS: Final = 1 << 16


class _Chunk(msgspec.Struct, frozen=True, array_like=True, tag="lane-chunk"):
    # Everything below is in this chunk or before it; a reader of the log goes on from here.
    end: int
    # Lane, start (relative to the chunk) and length of each range.
    ranges: list[int]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Chunk)


class _Ranges:
    """Ascending ranges that do not touch, with the number of offsets before each: 24 bytes each."""

    __slots__ = ("before", "ends", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.before = array("q")

    def append(self, start: int, end: int) -> None:
        if self.ends and self.ends[-1] == start:
            self.ends[-1] = end
            return
        before = self.before[-1] + self.ends[-1] - self.starts[-1] if self.ends else 0
        self.starts.append(start)
        self.ends.append(end)
        self.before.append(before)

    def next(self, offset: int, end: int) -> OffsetRange | None:
        at = bisect_right(self.ends, offset)
        if offset >= end or at == len(self.starts) or self.starts[at] >= end:
            return None
        return OffsetRange(max(self.starts[at], offset), min(self.ends[at], end))

    def next_gap(self, offset: int, end: int) -> OffsetRange | None:
        at = bisect_right(self.ends, offset)
        if at < len(self.starts) and self.starts[at] <= offset:
            offset = self.ends[at]
            at += 1
        if at < len(self.starts):
            end = min(end, self.starts[at])
        return OffsetRange(offset, end) if offset < end else None

    def count_below(self, offset: int) -> int:
        at = bisect_right(self.starts, offset) - 1
        if at < 0:
            return self.before[0] if self.before else 0
        return self.before[at] + min(offset, self.ends[at]) - self.starts[at]

    def trim(self, below: int) -> None:
        gone = bisect_right(self.ends, below)
        del self.starts[:gone], self.ends[:gone], self.before[:gone]
        if self.starts and self.starts[0] < below:
            self.before[0] += below - self.starts[0]
            self.starts[0] = below

    def truncate(self, end: int) -> None:
        kept = bisect_left(self.starts, end)
        del self.starts[kept:], self.ends[kept:], self.before[kept:]
        if self.ends and self.ends[-1] > end:
            self.ends[-1] = end


class LaneIndex:
    """The lanes of one partition. Costs nothing for normal messages, 48 bytes per other range."""

    def __init__(self, start: int = 0) -> None:
        self._end = start
        self._lanes = {lane: _Ranges() for lane in LANES if lane is not Lane.NORMAL}
        self._special = _Ranges()
        self._changed: set[int] = set()

    @property
    def end(self) -> int:
        """Everything below is indexed."""
        return self._end

    @property
    def range_count(self) -> int:
        return sum(len(ranges.starts) for ranges in self._lanes.values())

    def append(self, lane: Lane, start: int, end: int) -> None:
        """The messages `start` to `end` are of this lane; those between `self.end` and `start`
        are normal."""
        if not self._end <= start < end:
            raise ValueError(f"range {start} to {end} does not follow on {self._end}")
        self.advance(end)
        if lane is Lane.NORMAL:
            return
        self._lanes[lane].append(start, end)
        self._special.append(start, end)
        first, last = start // INDEX_CHUNK_OFFSETS, (end - 1) // INDEX_CHUNK_OFFSETS
        self._changed.update(range(first, last + 1))

    def advance(self, end: int) -> None:
        """The log has grown to `end` by normal messages."""
        self._end = max(self._end, end)

    def next_range(self, lane: Lane, offset: int, end: int) -> OffsetRange | None:
        """The first range of the lane at or after `offset`, cut at both ends."""
        if lane is Lane.NORMAL:
            return self._special.next_gap(offset, end)
        return self._lanes[lane].next(offset, end)

    def count(self, lane: Lane, start: int, end: int) -> int:
        """How many offsets of [start, end) are of the lane; O(log n)."""
        if start >= end:
            return 0
        if lane is Lane.NORMAL:
            return end - start - self._count(self._special, start, end)
        return self._count(self._lanes[lane], start, end)

    @staticmethod
    def _count(ranges: _Ranges, start: int, end: int) -> int:
        return ranges.count_below(end) - ranges.count_below(start)

    def trim(self, below: int) -> None:
        """The log now starts at `below`."""
        for ranges in (self._special, *self._lanes.values()):
            ranges.trim(below)
        self._end = max(self._end, below)

    def truncate(self, end: int) -> None:
        """The log was cut back to `end`."""
        if end < self._end:
            first, last = end // INDEX_CHUNK_OFFSETS, self._end // INDEX_CHUNK_OFFSETS
            self._changed.update(range(first, last + 1))
        for ranges in (self._special, *self._lanes.values()):
            ranges.truncate(end)
        self._end = min(self._end, end)

    # --- storing --------------------------------------------------------------------------

    def take_changed(self) -> list[int]:
        """The numbers of the chunks to store again since the last call."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def chunk(self, number: int) -> bytes | None:
        """What to store under this number, or None to delete it."""
        base = number * INDEX_CHUNK_OFFSETS
        limit = min(base + INDEX_CHUNK_OFFSETS, self._end)
        found: list[tuple[int, int, int]] = []
        for lane, ranges in self._lanes.items():
            offset = base
            while (offsets := ranges.next(offset, limit)) is not None:
                found.append((offsets.start - base, lane, offsets.end - offsets.start))
                offset = offsets.end
        if not found:
            return None
        flat = [part for start, lane, length in sorted(found) for part in (lane, start, length)]
        return _ENCODER.encode(_Chunk(limit, flat))

    @classmethod
    def restore(cls, chunks: Iterable[tuple[int, bytes]], *, start: int = 0) -> "LaneIndex":
        """An index of stored chunks; messages after its `end` are to be appended from the log."""
        index = cls(start)
        for number, data in sorted(chunks):
            base = number * INDEX_CHUNK_OFFSETS
            chunk = _DECODER.decode(data)
            parts = iter(chunk.ranges)
            for lane, relative, length in zip(parts, parts, parts, strict=True):
                first, end = base + relative, base + relative + length
                if end > start:
                    index.append(Lane(lane), max(first, start), end)
            index.advance(chunk.end)
        index.take_changed()
        return index
