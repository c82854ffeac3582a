"""Figures about delayed messages, since the broker started."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from goqueue.model.delays import LATENESS_BOUNDS_MS


class Lateness:
    """How long after their time messages were appended."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        self.sum_ms = 0

    def add(self, counts: Sequence[int], sum_ms: int) -> None:
        self.sum_ms += sum_ms
        self.counts = [have + more for have, more in zip(self.counts, counts, strict=True)]


@dataclass(slots=True)
class TopicFigures:
    delivered: int = 0
    cancelled: int = 0
    lateness: Lateness = field(default_factory=Lateness)


class DelayFigures:
    """Counts by topic id."""

    def __init__(self) -> None:
        self.topics: dict[UUID, TopicFigures] = {}
        self.delivered = 0
        self.cancelled = 0
        self.lateness = Lateness()

    def delivery(self, topic_id: UUID, due_times_ms: Sequence[int], now_ms: int) -> None:
        figures = self.topics.setdefault(topic_id, TopicFigures())
        self.delivered += len(due_times_ms)
        figures.delivered += len(due_times_ms)
        counts = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        for due_ms in due_times_ms:
            counts[bisect_left(LATENESS_BOUNDS_MS, now_ms - due_ms)] += 1
        sum_ms = now_ms * len(due_times_ms) - sum(due_times_ms)
        self.lateness.add(counts, sum_ms)
        figures.lateness.add(counts, sum_ms)

    def cancellation(self, topic_id: UUID) -> None:
        self.cancelled += 1
        self.topics.setdefault(topic_id, TopicFigures()).cancelled += 1

    def forget(self, topic_id: UUID) -> None:
        self.topics.pop(topic_id, None)
