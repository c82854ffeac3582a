"""Rebalances of groups, counted."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from goqueue.model.calls import Unanswered

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

    by_reason: dict[RebalanceReason, int] = field(default_factory=dict)
    completed: int = 0
    partitions_moved: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    last_ms: int | None = None
    last_ended_ms: int | None = None

    def add(self, reason: RebalanceReason) -> None:
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1

    def end(self, duration_ms: int, now_ms: int) -> None:
        self.completed += 1
        self.total_ms += duration_ms
        self.longest_ms = max(self.longest_ms, duration_ms)
        self.last_ms = duration_ms
        self.last_ended_ms = now_ms

    def plus(self, other: "RebalanceTally") -> "RebalanceTally":
        """Of both; the last is the later one."""
        later = max(self, other, key=lambda tally: tally.last_ended_ms or 0)
        return RebalanceTally(
            by_reason=Counter(self.by_reason) + Counter(other.by_reason),
            completed=self.completed + other.completed,
            partitions_moved=self.partitions_moved + other.partitions_moved,
            total_ms=self.total_ms + other.total_ms,
            longest_ms=max(self.longest_ms, other.longest_ms),
            last_ms=later.last_ms,
            last_ended_ms=later.last_ended_ms,
        )


class GroupRebalances(NamedTuple):
    state: str
    tally: RebalanceTally


class AllRebalances(NamedTuple):
    """`in_progress` counts groups."""

    in_progress: int
    tally: RebalanceTally
    unanswered: list[Unanswered]
