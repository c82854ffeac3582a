"""Which segments have had their time."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.segment import Segment

_NO_LIMIT = -1


class Expired(NamedTuple):
    """How many segments, oldest first, may go, and the bytes of those that nobody archived."""

    segment_count: int
    unarchived_bytes: int


def find_expired(
    segments: Sequence[Segment],
    config: TopicConfig,
    *,
    log_start_offset: int,
    now_ms: int,
    up_to: int,
    archived_offset: int | None = None,
) -> Expired:
    """Whose time has come. The newest segment counts only by its records' age.

    What is not committed stays: that is what reaches beyond `up_to`.
    With an `archived_offset`, what lies at or behind it waits, as long as the log is no larger
    than `retention.archive.max.bytes`.
    """
    count = 0
    unarchived_bytes = 0
    size_bytes = sum(segment.size_bytes for segment in segments)
    excess_bytes = size_bytes - config.retention_bytes
    for segment in segments:
        if segment.next_offset > up_to:
            break
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
        is_waited_for = archived_offset is not None and segment.next_offset > archived_offset
        if is_waited_for and not is_below_start:
            if size_bytes <= config.retention_archive_max_bytes:
                break
            unarchived_bytes += segment.size_bytes
        size_bytes -= segment.size_bytes
        count += 1
    return Expired(count, unarchived_bytes)


def _is_too_old(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    if config.retention_ms == _NO_LIMIT or segment.size_bytes == 0:
        return False
    newest_ms = segment.max_timestamp_ms()
    if newest_ms == NO_TIMESTAMP:
        newest_ms = segment.files.modified_ms()
    return newest_ms < now_ms - config.retention_ms
