"""How much of a log could be compacted, and whether that is enough to begin."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.settings import INT64_MAX
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.segment import Segment


class Dirt(NamedTuple):
    """`segments` are all that a run would copy, clean ones first."""

    segments: tuple[Segment, ...]
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_worth_a_run(self, config: TopicConfig) -> bool:
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.ratio >= config.min_cleanable_dirty_ratio
        )


def measure(
    closed: Sequence[Segment],
    config: TopicConfig,
    *,
    first_dirty_offset: int,
    stable_offset: int,
    now_ms: int,
) -> Dirt:
    """Look at the closed segments up to the first that must stay as it is.

    That is one with records younger than `min.compaction.lag.ms`, or with records of a transaction
    that is not decided: those at or above `stable_offset`.
    """
    segments = []
    clean_bytes = dirty_bytes = 0
    youngest_ms = now_ms - config.min_compaction_lag_ms
    for segment in closed:
        if segment.next_offset <= first_dirty_offset:
            clean_bytes += segment.size_bytes
        elif segment.next_offset > stable_offset or (
            config.min_compaction_lag_ms and segment.max_timestamp_ms() > youngest_ms
        ):
            break
        else:
            dirty_bytes += segment.size_bytes
        segments.append(segment)
    dirty = [segment for segment in segments if segment.next_offset > first_dirty_offset]
    is_overdue = config.max_compaction_lag_ms != INT64_MAX and any(
        _first_timestamp_ms(segment, first_dirty_offset, now_ms)
        <= now_ms - config.max_compaction_lag_ms
        for segment in dirty
    )
    return Dirt(tuple(segments), clean_bytes, dirty_bytes, is_overdue)


def _first_timestamp_ms(segment: Segment, first_dirty_offset: int, default_ms: int) -> int:
    start = max(segment.base_offset, first_dirty_offset)
    headers = (header for _, header in segment.headers_from(start) if header.record_count)
    first = next(headers, None)
    return default_ms if first is None else first.max_timestamp_ms
