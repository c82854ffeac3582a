"""Which segments have had their time, and what becomes of them."""

from collections import deque
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
        newest_ms = segment.modified_ms()
    return newest_ms < now_ms - config.retention_ms


class RemovedSegments:
    """Segments out of the log whose files stay a while for readers that are about to open them.

    Added to by the appending thread, purged by any one thread.
    """

    def __init__(self) -> None:
        self._due: deque[tuple[int, Segment]] = deque()

    def add(self, segment: Segment, due_ms: int) -> None:
        segment.mark_deleted()
        self._due.append((due_ms, segment))

    def purge(self, now_ms: int) -> None:
        """Delete what is due. What fails stays and is tried again."""
        while self._due and self._due[0][0] <= now_ms:
            self._due[0][1].remove_files()
            self._due.popleft()
