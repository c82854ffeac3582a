"""When a segment is full."""

from goqueue.model.batch import NO_TIMESTAMP, BatchHeader
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.index import RELATIVE_OFFSET_MAX, TIME_ENTRY_BYTES
from goqueue.storage.segment import Segment


def is_full(
    segment: Segment, config: TopicConfig, added_bytes: int, last: BatchHeader, now_ms: int
) -> bool:
    """Whether an append that ends with the batch `last` must go to a new segment.

    By size, by index size, and by age: of the segment's first append on the broker's clock, or of
    its first batch against the new one, so that replayed history is cut up as well.
    """
    last_offset = last.base_offset + last.last_offset_delta
    return (
        segment.size_bytes + added_bytes > config.segment_bytes
        or segment.index_entries * TIME_ENTRY_BYTES >= config.segment_index_bytes
        or is_old(segment, config, now_ms)
        or NO_TIMESTAMP < segment.first_timestamp_ms < last.max_timestamp_ms - config.segment_ms
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    )


def is_old(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    """Whether a segment took its first append so long ago that it is to be closed.

    Only closed segments are compacted, so `max.compaction.lag.ms` counts as well.
    """
    limit_ms = config.segment_ms
    if config.is_compacted:
        limit_ms = min(limit_ms, config.max_compaction_lag_ms)
    return now_ms - segment.opened_ms >= limit_ms
