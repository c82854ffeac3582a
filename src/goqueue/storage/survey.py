"""Everything a scan tells about a segment: its index, its end, and its damage."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.model.batch import NO_TIMESTAMP, BatchHeader
from goqueue.storage.damage import Gap
from goqueue.storage.index import SegmentIndex
from goqueue.storage.scan import Found, KnownEpochs, Lost, Scanned

OnBatch = Callable[[BatchHeader, int], None]


class Scrutiny(NamedTuple):
    """`on_batch` hears of each batch; it is held against `epochs`, or those that the log knows."""

    on_batch: OnBatch | None = None
    epochs: KnownEpochs | None = None


PLAIN: Final = Scrutiny()


@dataclass(frozen=True, slots=True)
class Survey:
    index: SegmentIndex
    max_timestamp_ms: int
    # Behind the last valid batch.
    next_offset: int
    gaps: tuple[Gap, ...]
    tail: Lost | None

    def all_gaps(self, size: int, next_offset: int) -> tuple[Gap, ...]:
        """The gaps of a file that has this size and should have reached `next_offset`."""
        if self.tail is not None:
            position, first_offset, reason = self.tail
            return (*self.gaps, Gap(position, size, first_offset, next_offset, reason))
        if self.next_offset < next_offset:
            reason = "the file ends too early"
            return (*self.gaps, Gap(size, size, self.next_offset, next_offset, reason))
        return self.gaps

    def cut_off(self, size: int, path: Path) -> str:
        """For the log, where the tail is lost."""
        assert self.tail is not None
        return (
            f"cut {size - self.tail.position} bytes off {path} at byte {self.tail.position} "
            f"(log end offset {self.next_offset}): {self.tail.reason}"
        )


def nothing_of(base_offset: int, reason: str) -> Survey:
    """Of a file that is not to be used at all."""
    lost = Lost(0, base_offset, reason)
    return Survey(SegmentIndex(), NO_TIMESTAMP, base_offset, (), lost)


def survey(
    items: Iterator[Scanned],
    base_offset: int,
    index_interval_bytes: int,
    on_batch: OnBatch | None = None,
) -> Survey:
    index = SegmentIndex()
    gaps: list[Gap] = []
    tail: Lost | None = None
    max_timestamp_ms = NO_TIMESTAMP
    next_offset, since_entry = base_offset, 0
    for item in items:
        match item:
            case Found(position, header):
                if since_entry > index_interval_bytes:
                    index.add(header.base_offset - base_offset, position, max_timestamp_ms)
                    since_entry = 0
                since_entry += header.size_bytes
                if header.record_count:
                    max_timestamp_ms = max(max_timestamp_ms, header.max_timestamp_ms)
                next_offset = header.next_offset
                if on_batch is not None:
                    on_batch(header, position)
            case Gap():
                gaps.append(item)
            case Lost():
                tail = item
    return Survey(index, max_timestamp_ms, next_offset, tuple(gaps), tail)
