"""How often groups rebalance, why, for how long, and how many partitions get a new reader.

Counted since this broker started. Owned by the group coordinator; event loop only.
"""

from typing import Final

from goqueue.model.groups.rebalances import RebalanceReason, RebalanceTally
from goqueue.model.measuring.histograms import Histogram

# Beyond this many groups the ones that did not rebalance for longest are forgotten.
GROUPS_MAX: Final = 10_000
# Up to the usual `max.poll.interval.ms`, for which a classic group waits for a member.
DURATION_BOUNDS_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0)


class RebalanceStats:
    def __init__(self) -> None:
        self.total = RebalanceTally()
        self.durations = Histogram(DURATION_BOUNDS_SECONDS)
        self._by_group: dict[str, RebalanceTally] = {}
        # Groups on their way to a new assignment, and since when.
        self._since_ms: dict[str, int] = {}

    def group(self, group_id: str) -> RebalanceTally:
        return self._by_group.get(group_id) or RebalanceTally()

    def is_in_progress(self, group_id: str) -> bool:
        return group_id in self._since_ms

    def begun(self, group_id: str, reason: RebalanceReason, now_ms: int) -> None:
        self._since_ms.setdefault(group_id, now_ms)
        for tally in (self.total, self._tally(group_id)):
            tally.add(reason)

    def moved(self, group_id: str, partitions: int) -> None:
        for tally in (self.total, self._tally(group_id)):
            tally.partitions_moved += partitions

    def ended(self, group_id: str, now_ms: int) -> None:
        since_ms = self._since_ms.pop(group_id, None)
        if since_ms is not None:
            duration_ms = max(0, now_ms - since_ms)
            self.durations.observe(duration_ms / 1000)
            for tally in (self.total, self._tally(group_id)):
                tally.end(duration_ms, now_ms)

    def deserted(self, group_id: str) -> None:
        """Nobody is left to settle it."""
        self._since_ms.pop(group_id, None)

    def _tally(self, group_id: str) -> RebalanceTally:
        tally = self._by_group.pop(group_id, None) or RebalanceTally()
        self._by_group[group_id] = tally
        if len(self._by_group) > GROUPS_MAX:
            del self._by_group[next(iter(self._by_group))]
        return tally
