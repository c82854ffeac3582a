"""Which segments have had their time."""

from collections.abc import Sequence

from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.segment import Segment

_NO_LIMIT = -1


def count_expired(
    segments: Sequence[Segment], config: TopicConfig, *, log_start_offset: int, now_ms: int
) -> int:
    """How many segments, oldest first, may go. The newest counts only by its records' age."""
    count = 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for segment in segments:
        is_active = segment is segments[-1]
        excess_bytes -= segment.size_bytes
        is_below_start = segment.next_offset <= log_start_offset and not is_active
        if not (
            is_below_start
            or (config.is_deleted_by_retention and _is_too_old(segment, config, now_ms))
            or (
                config.is_deleted_by_retention
                and config.retention_bytes != _NO_LIMIT
                and excess_bytes >= 0
                and not is_active
            )
        ):
            break
        count += 1
    return count


def _is_too_old(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    if config.retention_ms == _NO_LIMIT or segment.size_bytes == 0:
        return False
    newest_ms = segment.max_timestamp_ms()
    if newest_ms == NO_TIMESTAMP:
        newest_ms = segment.files.modified_ms()
    return newest_ms < now_ms - config.retention_ms
