"""When leases run out. The clock comes in as an argument."""

import heapq

from goqueue.metadata.store import LeaseId


class LeaseDeadlines:
    """Keep-alives only note the new deadline; the heap learns of it when the old one is due."""

    def __init__(self) -> None:
        self._deadlines_ms: dict[LeaseId, int] = {}
        self._heap: list[tuple[int, LeaseId]] = []

    def set(self, lease: LeaseId, deadline_ms: int) -> None:
        is_new = lease not in self._deadlines_ms
        self._deadlines_ms[lease] = deadline_ms
        if is_new:
            heapq.heappush(self._heap, (deadline_ms, lease))

    def remove(self, lease: LeaseId) -> None:
        self._deadlines_ms.pop(lease, None)

    def next_deadline_ms(self) -> int | None:
        """When to look again; may be earlier than the first real deadline."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> list[LeaseId]:
        due: list[LeaseId] = []
        while self._heap and self._heap[0][0] <= now_ms:
            _, lease = heapq.heappop(self._heap)
            deadline_ms = self._deadlines_ms.get(lease)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                del self._deadlines_ms[lease]
                due.append(lease)
            else:
                heapq.heappush(self._heap, (deadline_ms, lease))
        return due
