"""Who has which offsets, and until when. Volatile: after a crash nobody has anything."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.lanes import Lane
from goqueue.state.machine import Deadlines

if TYPE_CHECKING:
    from goqueue.state.queues.queue import Queue


class HoldKind(Enum):
    # With a consumer until the deadline.
    LEASED = auto()
    # With nobody until the deadline.
    WAITING = auto()
    # On its way to the dead letters, to be tried again at the deadline.
    BURYING = auto()


class Hold:
    """The offsets of one lane that were taken together, or what is left of them."""

    __slots__ = ("deadline_ms", "kind", "lane", "lease_id", "member", "queue", "ranges", "size")

    def __init__(
        self,
        queue: "Queue",
        kind: HoldKind,
        lane: Lane,
        ranges: Sequence[OffsetRange],
        deadline_ms: int,
        *,
        member: str | None = None,
        lease_id: int = 0,
    ) -> None:
        self.queue = queue
        self.kind = kind
        self.lane = lane
        self.ranges = ranges
        self.size = sum(offsets.size for offsets in ranges)
        self.deadline_ms = deadline_ms
        self.member = member
        self.lease_id = lease_id

    def held(self) -> list[OffsetRange]:
        """The ranges that are still in this hold."""
        return [
            OffsetRange(piece.start, piece.end)
            for offsets in self.ranges
            for piece in self.queue.holds.occupied(offsets.start, offsets.end)
            if piece.value is self
        ]


class Holds:
    """All holds of a machine, by time and by member."""

    def __init__(self) -> None:
        self._deadlines: Deadlines[Hold] = Deadlines()
        self._members: dict[tuple[str, str], set[Hold]] = {}
        self._in_flight: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def in_flight(self, group: str, member: str) -> int:
        """How many messages the member has, in all queues of the group in this machine."""
        return self._in_flight.get((group, member), 0)

    def of_member(self, group: str, member: str) -> Iterable[Hold]:
        return list(self._members.get((group, member), ()))

    def put(self, hold: Hold) -> None:
        """Start a hold of offsets that nobody holds."""
        queue = hold.queue
        for start, end in hold.ranges:
            queue.holds.assign(start, end, hold)
        self._deadlines.set(hold, hold.deadline_ms)
        if hold.kind is HoldKind.LEASED:
            queue.in_flight[hold.lane] += hold.size
            if hold.member is not None:
                member = (queue.key.group, hold.member)
                self._members.setdefault(member, set()).add(hold)
                self._in_flight[member] = self._in_flight.get(member, 0) + hold.size
        elif hold.kind is HoldKind.WAITING:
            queue.waiting[hold.lane] += hold.size

    def move(self, hold: Hold, deadline_ms: int) -> None:
        hold.deadline_ms = deadline_ms
        self._deadlines.set(hold, deadline_ms)

    def drop(self, queue: "Queue", start: int, end: int) -> None:
        """End whatever holds offsets of [start, end), for these."""
        for piece in list(queue.holds.occupied(start, end)):
            if piece.value is not None:
                self._shrink(piece.value, piece.end - piece.start)
            queue.holds.assign(piece.start, piece.end, None)

    def _shrink(self, hold: Hold, by: int) -> None:
        hold.size -= by
        queue = hold.queue
        if hold.kind is HoldKind.LEASED:
            queue.in_flight[hold.lane] -= by
            if hold.member is not None:
                member = (queue.key.group, hold.member)
                self._in_flight[member] -= by
                if not self._in_flight[member]:
                    del self._in_flight[member]
        elif hold.kind is HoldKind.WAITING:
            queue.waiting[hold.lane] -= by
        if hold.size:
            return
        self._deadlines.cancel(hold)
        if hold.kind is HoldKind.LEASED and hold.member is not None:
            member = (queue.key.group, hold.member)
            holds = self._members[member]
            holds.discard(hold)
            if not holds:
                del self._members[member]

    def next_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def pop_due(self, now_ms: int, limit: int) -> list[Hold]:
        """Due holds; their offsets stay in them until dropped."""
        return self._deadlines.pop_due(now_ms, limit)
