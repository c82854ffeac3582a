"""More partitions for a topic: in which manner."""

import time
from typing import Final

from goqueue.model.layouts import Split
from goqueue.model.topics import TopicView
from goqueue.state.layouts import ordered_split, plain_growth

ORDERED: Final = "ordered"


def next_splits(
    topic: TopicView, total: int, *, is_ordered: bool, drain_ms: int
) -> tuple[Split, ...]:
    """What is to be stored of the topic's growth into `total` partitions."""
    now_ms = time.time_ns() // 1_000_000
    current = len(topic.partitions)
    if is_ordered:
        return ordered_split(
            topic.name,
            topic.splits,
            current=current,
            total=total,
            now_ms=now_ms,
            drain_ms=drain_ms,
        )
    return plain_growth(topic.name, topic.splits, current=current, total=total, now_ms=now_ms)
