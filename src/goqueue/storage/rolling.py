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
    return (
        segment.size_bytes + added_bytes > config.segment_bytes
        or segment.index_entries * TIME_ENTRY_BYTES >= config.segment_index_bytes
        or now_ms - segment.opened_ms >= config.segment_ms
        or NO_TIMESTAMP < segment.first_timestamp_ms < last.max_timestamp_ms - config.segment_ms
        or last.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    )
