"""Rebalances of groups, counted."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

# States in which members are on their way to a new assignment, of both protocols.
REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)


class RebalanceReason(StrEnum):
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    # Its session or the time to give up partitions ended.
    MEMBER_EXPIRED = "member_expired"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    # Partitions were added, or a subscribed topic came or went.
    TOPICS_CHANGED = "topics_changed"


@dataclass(slots=True)
class RebalanceTally:
    """`completed` may be less than the sum of `by_reason`: one settles what several began."""

    by_reason: Counter[RebalanceReason] = field(default_factory=Counter)
    completed: int = 0
    partitions_moved: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    last_ms: int | None = None
    last_ended_ms: int | None = None

    def add(self, reason: RebalanceReason) -> None:
        self.by_reason[reason] += 1

    def end(self, duration_ms: int, now_ms: int) -> None:
        self.completed += 1
        self.total_ms += duration_ms
        self.longest_ms = max(self.longest_ms, duration_ms)
        self.last_ms = duration_ms
        self.last_ended_ms = now_ms
