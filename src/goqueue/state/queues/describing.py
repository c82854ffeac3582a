"""Figures of a queue. Counted when asked for: nothing is kept per message for them."""

from collections import Counter

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LANES, Lane
from goqueue.model.queues.messages import LaneFigures, QueueDescription, QueueTotals
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.marks import SETTLED, death_of, delivery_count
from goqueue.state.queues.queue import Queue
from goqueue.state.queues.range_set import RangeSet


def describe_queue(
    queue: Queue,
    readable: OffsetRange | None,
    lanes: LaneIndex | None,
    gaps: RangeSet | None = None,
) -> QueueDescription:
    """Without `readable`, only what was delivered before counts as ready. `gaps` are offsets that
    are no messages, as far as that is known."""
    settled = dead = 0
    deliveries: Counter[int] = Counter()
    for start, end, mark in queue.ledger.occupied(queue.ledger.floor):
        if mark == SETTLED:
            settled += end - start
            continue
        deliveries[delivery_count(mark)] += end - start
        if death_of(mark) is not None:
            dead += end - start
    queue.sort_returned(lanes)
    fresh = _fresh_by_lane(queue, readable, lanes, gaps)
    figures = tuple(
        LaneFigures(
            ready=fresh[lane] + queue.returned[lane].size,
            in_flight=queue.in_flight[lane],
            waiting=queue.waiting[lane],
            dequeued=queue.counters.dequeued[lane],
            last_served_ms=queue.counters.last_served_ms[lane],
        )
        for lane in LANES
    )
    return QueueDescription(
        error=QueueError.NONE,
        queue=queue.key,
        generation=queue.ledger.generation,
        settings=queue.settings,
        floor=queue.ledger.floor,
        ready=sum(lane.ready for lane in figures),
        in_flight=sum(queue.in_flight),
        waiting=sum(queue.waiting),
        dying=dead,
        settled_above_floor=settled,
        delivery_counts=dict(sorted(deliveries.items())),
        lanes=figures,
        totals=_totals(queue),
    )


def _fresh_by_lane(
    queue: Queue,
    readable: OffsetRange | None,
    lanes: LaneIndex | None,
    gaps: RangeSet | None,
) -> list[int]:
    fresh = [0] * len(LANES)
    if readable is None:
        return fresh
    base, end = max(queue.ledger.floor, readable.start), readable.end
    total = max(end - base, 0) - sum(
        max(min(piece.end, end) - piece.start, 0) for piece in queue.ledger.occupied(base)
    )
    empty = _unsettled_gaps(queue, gaps, base, end) if gaps else []
    total -= sum(gap.size for gap in empty)
    if lanes is not None and not queue.is_single_lane:
        for lane in LANES:
            if lane is not Lane.NORMAL:
                # Below the lane's cursor nothing is fresh, above it hardly anything is not.
                start = max(base, queue.cursors[lane])
                fresh[lane] = lanes.count(lane, start, end) - sum(
                    lanes.count(lane, piece.start, min(piece.end, end))
                    for piece in queue.ledger.occupied(start)
                )
                fresh[lane] -= sum(lanes.count(lane, gap.start, gap.end) for gap in empty)
    fresh[Lane.NORMAL] = total - sum(fresh)
    return fresh


def _unsettled_gaps(queue: Queue, gaps: RangeSet, base: int, end: int) -> list[OffsetRange]:
    """The parts of the gaps that nobody has come to yet."""
    taken = RangeSet((piece.start, piece.end) for piece in queue.ledger.occupied(base))
    parts: list[OffsetRange] = []
    for gap in gaps.within(base, end):
        start = gap.start
        for settled in taken.within(gap.start, gap.end):
            if start < settled.start:
                parts.append(OffsetRange(start, settled.start))
            start = settled.end
        if start < gap.end:
            parts.append(OffsetRange(start, gap.end))
    return parts


def _totals(queue: Queue) -> QueueTotals:
    counters = queue.counters
    return QueueTotals(
        delivered=sum(counters.dequeued),
        accepted=counters.accepted,
        released=counters.released,
        retried=counters.retried,
        rejected=counters.rejected,
        timed_out=counters.timed_out,
        expired=counters.expired,
        skipped=counters.skipped,
        dead_lettered=counters.dead_lettered,
        dropped=counters.dropped,
    )
