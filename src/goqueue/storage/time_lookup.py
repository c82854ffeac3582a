"""From a time to the first record at or after it."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import find_first_since
from goqueue.storage.segment import Segment


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment],
    timestamp_ms: int,
    *,
    start: int,
    up_to: int,
    bounds: DecodingBounds,
    without_markers: bool = False,
) -> TimestampedOffset | None:
    """The first record in [start, up_to) with this timestamp or a later one."""
    for segment in segments:
        if segment.next_offset <= start or segment.max_timestamp_ms() < timestamp_ms:
            continue
        for position, header in segment.headers_since(timestamp_ms):
            if header.base_offset >= up_to:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < start:
                continue
            if without_markers and header.is_control:
                continue
            batch = segment.batch(position, header)
            if batch is None:
                continue
            try:
                found = find_first_since(batch, timestamp_ms, start, bounds)
            except CorruptBatch:
                # Stored as the producer sent it, with a checksum that fits: name the whole batch.
                first = max(header.base_offset, start)
                return TimestampedOffset(first, header.max_timestamp_ms, header.leader_epoch)
            if found is not None:
                offset, found_ms = found
                if offset >= up_to:
                    return None
                return TimestampedOffset(offset, found_ms, header.leader_epoch)
    return None


def find_max_timestamp(
    segments: Sequence[Segment], *, start: int, up_to: int, bounds: DecodingBounds
) -> TimestampedOffset | None:
    """The first record in [start, up_to) with the largest timestamp."""
    times = [(_max_timestamp_ms(segment, start), segment) for segment in segments]
    newest_ms, segment = max(times, key=lambda time: time[0])
    return find_timestamp((segment,), newest_ms, start=start, up_to=up_to, bounds=bounds)


def _max_timestamp_ms(segment: Segment, start: int) -> int:
    if segment.base_offset >= start:
        return segment.max_timestamp_ms()
    later = (
        header.max_timestamp_ms for _, header in segment.headers_from(start) if header.record_count
    )
    return max(later, default=-1)
