"""Delivering messages under a lease."""

from collections.abc import Callable
from typing import NamedTuple

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LANES, Lane
from goqueue.model.queues.messages import Leased
from goqueue.state.queues.holds import Hold, HoldKind, Holds
from goqueue.state.queues.ledger import Marks
from goqueue.state.queues.marks import delivered
from goqueue.state.queues.messages import Acquire, Acquired, Limit
from goqueue.state.queues.queue import Queue
from goqueue.state.queues.range_set import RangeSet
from goqueue.state.queues.selection import Pick, Wanted, choose, select
from goqueue.state.queues.turn import Turn


class _Room(NamedTuple):
    wanted: Wanted
    limited_by: Limit | None


def candidates(queue: Queue, holds: Holds, request: Acquire, now_ms: int) -> list[OffsetRange]:
    """Ready ranges in the order of delivery."""
    if not _is_valid(request):
        return []
    room = _room(queue, holds, request)
    return [
        OffsetRange(pick.start, pick.end)
        for pick in _picks(queue, queue.ledger, request, room.wanted, now_ms)
    ]


def acquire(
    queue: Queue, holds: Holds, turn: Turn, request: Acquire, new_lease_id: Callable[[], int]
) -> Acquired:
    if not _is_valid(request):
        return Acquired(error=QueueError.INVALID_REQUEST)
    turn.skip(queue, OffsetRange(0, request.readable.start))
    for offsets in request.skipped:
        turn.skip(queue, offsets)
    for offsets in request.expired:
        turn.expire(queue, offsets, also_leased=False)
    room = _room(queue, holds, request)
    queue.is_limited = queue.is_limited or room.limited_by is not None
    picks = _picks(queue, turn.draft(queue), request, room.wanted, turn.now_ms)
    if not picks:
        # A member with room left was not held back: there was nothing for it.
        has_room = room.limited_by is Limit.MEMBER and room.wanted.messages > 0
        return Acquired(error=QueueError.NONE, limited_by=None if has_room else room.limited_by)
    lease_ms = queue.settings.lease_ms if request.lease_ms is None else request.lease_ms
    lease_id, deadline_ms = new_lease_id(), turn.now_ms + lease_ms
    by_lane: dict[Lane, list[Pick]] = {}
    for pick in picks:
        by_lane.setdefault(pick.lane, []).append(pick)
    for lane, taken in by_lane.items():
        _deliver(queue, turn, taken)
        ranges = [OffsetRange(pick.start, pick.end) for pick in taken]
        holds.put(
            Hold(
                queue,
                HoldKind.LEASED,
                lane,
                ranges,
                deadline_ms,
                member=request.member,
                lease_id=lease_id,
            )
        )
    _count(queue, by_lane, turn.now_ms)
    return Acquired(
        error=QueueError.NONE,
        lease_id=lease_id,
        deadline_ms=deadline_ms,
        leased=_joined(picks),
        limited_by=room.limited_by,
    )


def _is_valid(request: Acquire) -> bool:
    if request.max_messages < 1 or (request.lease_ms is not None and request.lease_ms < 1):
        return False
    ranges = (*(request.only or ()), *request.skipped, *request.expired)
    if not all(0 <= offsets.start < offsets.end for offsets in ranges):
        return False
    only = request.only or ()
    return RangeSet(only).size == sum(offsets.size for offsets in only)


def _room(queue: Queue, holds: Holds, request: Acquire) -> _Room:
    settings = queue.settings
    room, limited_by = request.max_messages, None
    if request.member is not None:
        in_flight = holds.in_flight(queue.key.group, request.member)
        if settings.max_in_flight_per_member - in_flight < room:
            room, limited_by = settings.max_in_flight_per_member - in_flight, Limit.MEMBER
    in_flight = sum(queue.in_flight)
    if settings.max_in_flight - in_flight < room:
        room, limited_by = settings.max_in_flight - in_flight, Limit.QUEUE
    fresh = settings.max_unsettled - queue.unsettled
    if fresh < room and limited_by is None:
        limited_by = Limit.UNSETTLED
    return _Room(Wanted(max(room, 0), max(min(room, fresh), 0)), limited_by)


def _picks(queue: Queue, marks: Marks, request: Acquire, wanted: Wanted, now_ms: int) -> list[Pick]:
    readable, lanes = request.readable, request.lanes
    if lanes is not None:
        # What is not indexed yet has no lane yet.
        readable = OffsetRange(readable.start, min(readable.end, lanes.end))
    if request.only is not None:
        return choose(queue, marks, readable, lanes, request.only, wanted)
    return select(queue, marks, readable, lanes, wanted, now_ms)


def _deliver(queue: Queue, turn: Turn, picks: list[Pick]) -> None:
    draft = turn.draft(queue)
    for pick in picks:
        if pick.deliveries:
            queue.withdraw(pick.start, pick.end)
        draft.assign(pick.start, pick.end, delivered(pick.deliveries + 1))


def _count(queue: Queue, by_lane: dict[Lane, list[Pick]], now_ms: int) -> None:
    taken = [0] * len(LANES)
    for lane, picks in by_lane.items():
        taken[lane] = sum(pick.size for pick in picks)
        queue.counters.dequeued[lane] += taken[lane]
        queue.counters.last_served_ms[lane] = now_ms
    queue.scheduler.spend(taken, now_ms)


def _joined(picks: list[Pick]) -> tuple[Leased, ...]:
    """Neighbours delivered equally often become one range again, across the ends of blocks."""
    joined: list[Leased] = []
    for lane, start, end, deliveries in picks:
        count = deliveries + 1
        if joined:
            last = joined[-1]
            if (last.offsets.end, last.delivery_count, last.lane) == (start, count, lane):
                joined[-1] = Leased(OffsetRange(last.offsets.start, end), count, lane)
                continue
        joined.append(Leased(OffsetRange(start, end), count, lane))
    return tuple(joined)
