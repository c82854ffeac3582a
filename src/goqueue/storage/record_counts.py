"""How many records lie between two offsets, by the headers of their batches.

Offsets are not records: markers of transactions take some, compaction leaves holes, and what was
aborted is there and does not count for everyone. A header says how many records its batch has, so
that none of them is read: but for a batch that compaction thinned out, where a range begins or ends
within it.
"""

import threading
from array import array
from bisect import bisect_right
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import BatchHeader
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import open_records
from goqueue.storage.segment import Segment

# Of one step. With the smallest batches this takes a thread some 20 ms.
STEP_HEADERS_MAX: Final = 16_384
# Also of one step: so there is a bound on the aborted transactions that it must be told of.
STEP_OFFSETS_MAX: Final = 65_536


class CountedRecords(NamedTuple):
    """All that lie below `next_offset` are counted."""

    records: int
    next_offset: int


class RecordCounts:
    """Remembers what was counted of each segment of a log, with aborted records and without.

    Whoever asks sees to it that the answer can never change: only what is committed is counted, and
    without aborted records only what lies below the last stable offset. Any thread may count.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The log was cut. What a thread is counting just now is not remembered either."""
        self._steps: tuple[WeakKeyDictionary[Segment, _Steps], ...] = (
            WeakKeyDictionary(),
            WeakKeyDictionary(),
        )

    def known(
        self, segment: Segment, offset: int, up_to: int, *, without_aborted: bool
    ) -> CountedRecords:
        """As much from `offset` on as is remembered; takes no time."""
        steps = self._steps[without_aborted].get(segment)
        return CountedRecords(0, offset) if steps is None else steps.between(offset, up_to)

    def count(
        self,
        segment: Segment,
        offset: int,
        up_to: int,
        *,
        aborted: AbortedBatches | None,
        bounds: DecodingBounds,
    ) -> CountedRecords:
        """Count in this segment from `offset` on, one step at most; `CorruptBatch` at damage.

        `aborted` has what is not to be counted of the next `STEP_OFFSETS_MAX`; None: count all.
        """
        table = self._steps[aborted is not None]
        steps = table.get(segment)
        if steps is None:
            steps = table.setdefault(segment, _Steps())
        end = offset + STEP_OFFSETS_MAX
        known_from = steps.next_after(offset)
        walk = _Walk(segment, offset, up_to, aborted, bounds)
        counted = walk.run(end if known_from is None else min(end, known_from))
        if counted.next_offset == offset:
            raise segment.corrupt(offset)  # the next segment begins later than this one ends
        if counted.next_offset >= end or walk.headers == STEP_HEADERS_MAX or walk.is_at_the_end:
            steps.add(offset, counted)
        return counted


class _Steps:
    """Offsets up to which was counted, and the records from the first offset up to each of them.

    16 bytes for a step, which is less than a ten-thousandth of the batches that it stands for.
    """

    __slots__ = ("_ends", "_first", "_lock", "_totals")

    def __init__(self) -> None:
        self._first: int | None = None
        self._ends = array("q")
        self._totals = array("q")
        self._lock = threading.Lock()

    def between(self, offset: int, up_to: int) -> CountedRecords:
        with self._lock:
            known = bisect_right(self._ends, up_to)
            before = bisect_right(self._ends, offset)
            begins = offset == (self._ends[before - 1] if before else self._first)
            if not begins or known <= before:
                return CountedRecords(0, offset)
            earlier = self._totals[before - 1] if before else 0
            return CountedRecords(self._totals[known - 1] - earlier, self._ends[known - 1])

    def next_after(self, offset: int) -> int | None:
        """From where on more is known, for who counts from `offset` on."""
        with self._lock:
            if self._first is not None and offset < self._first:
                return self._first
            place = bisect_right(self._ends, offset)
            return self._ends[place] if place < len(self._ends) else None

    def add(self, offset: int, counted: CountedRecords) -> None:
        """A step that was counted, if it goes on from the last one or begins before the first."""
        with self._lock:
            end = self._ends[-1] if self._ends else None
            if end is None or self._first is None or offset < self._first:
                self._first = offset
                self._ends = array("q")
                self._totals = array("q")
            elif offset != end:
                return
            total = self._totals[-1] if self._totals else 0
            self._ends.append(counted.next_offset)
            self._totals.append(total + counted.records)


class _Walk:
    """One step over the headers of a segment."""

    def __init__(
        self,
        segment: Segment,
        offset: int,
        up_to: int,
        aborted: AbortedBatches | None,
        bounds: DecodingBounds,
    ) -> None:
        self.headers = 0
        self._segment = segment
        self._offset = offset
        self._up_to = up_to
        self._aborted = aborted
        self._bounds = bounds
        self._reached = offset
        # What is appended from now on is left to the next step.
        self._segment_end = segment.next_offset

    @property
    def is_at_the_end(self) -> bool:
        """Of a segment that does not grow any more."""
        return self._reached == self._segment_end and not self._segment.is_appendable

    def run(self, end: int) -> CountedRecords:
        """Count the batches that begin before `end`, as far as there is room in the step."""
        records = 0
        end = min(end, self._up_to, self._segment_end)
        for position, header in self._segment.headers_from(self._offset):
            if self._reached >= end or self.headers == STEP_HEADERS_MAX:
                break
            base_offset = header.base_offset
            if base_offset > self._reached:
                raise self._segment.corrupt(self._reached)
            self.headers += 1
            self._reached = header.next_offset
            if not 0 <= header.record_count <= header.last_offset_delta + 1:
                raise CorruptBatch(
                    f"batch at offset {base_offset} says {header.record_count} records and last "
                    f"offset delta {header.last_offset_delta}"
                )
            if header.is_control or (self._aborted is not None and self._aborted.has(header)):
                continue
            if base_offset >= self._offset and self._reached <= self._up_to:
                records += header.record_count
            else:
                records += self._part_of(position, header)
        if self._reached < end and self.headers < STEP_HEADERS_MAX:
            raise self._segment.corrupt(self._reached)
        self._reached = min(self._reached, self._up_to)
        return CountedRecords(records, self._reached)

    def _part_of(self, position: int, header: BatchHeader) -> int:
        """Records of a batch that begins before the range or ends after it."""
        first = max(header.base_offset, self._offset)
        end = min(header.next_offset, self._up_to)
        if header.record_count == header.last_offset_delta + 1:
            return end - first
        batch = self._segment.batch(position, header)
        if batch is None:
            raise self._segment.corrupt(header.base_offset)
        return sum(first <= record.offset < end for record in open_records(batch, self._bounds))
