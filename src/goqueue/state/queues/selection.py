"""Which messages to deliver next: returned ones first, then fresh ones, shared among the lanes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.lanes import LANES, Lane
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.ledger import Marks
from goqueue.state.queues.marks import FRESH, delivery_count, is_open
from goqueue.state.queues.queue import ALL_LANES, Queue


class Pick(NamedTuple):
    """Ready messages of one lane that were delivered equally often."""

    lane: Lane
    start: int
    end: int
    deliveries: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Wanted(NamedTuple):
    """How much may be taken, and how much of it may be fresh."""

    messages: int
    fresh: int


def select(
    queue: Queue,
    marks: Marks,
    readable: OffsetRange,
    lanes: LaneIndex | None,
    wanted: Wanted,
    now_ms: int,
) -> list[Pick]:
    """The queue's own choice. Spends nothing of the lanes' credits."""
    queue.sort_returned(lanes)
    if lanes is None or queue.is_single_lane:
        return _offer(queue, marks, LANES, readable, None, wanted)
    # Most lanes can get no more than their part, so look no further at first.
    caps = [min(wanted.messages, cap) for cap in queue.scheduler.fair_shares(wanted.messages)]
    while True:
        offers = [
            _offer(queue, marks, (lane,), readable, lanes, Wanted(cap, min(cap, wanted.fresh)))
            for lane, cap in zip(LANES, caps, strict=True)
        ]
        ready = [sum(pick.size for pick in offer) for offer in offers]
        shares = queue.scheduler.share(ready, wanted.messages, now_ms)
        short = [n for n in LANES if shares[n] == caps[n] < wanted.messages]
        if not short:
            break
        for lane in short:
            caps[lane] = wanted.messages
    chosen = [
        pick for offer, share in zip(offers, shares, strict=True) for pick in _cut(offer, share)
    ]
    return _limit_fresh(chosen, wanted.fresh)


def choose(
    queue: Queue,
    marks: Marks,
    readable: OffsetRange,
    lanes: LaneIndex | None,
    only: Sequence[OffsetRange],
    wanted: Wanted,
) -> list[Pick]:
    """What is ready of the ranges that the caller chose, in the caller's order."""
    queue.sort_returned(lanes)
    picks: list[Pick] = []
    left = wanted.messages
    for offsets in only:
        start, end = max(offsets.start, readable.start), min(offsets.end, readable.end)
        for lane, part in _by_lane(lanes, start, end):
            found = _cut(_ready_within(queue, marks, lane, part), left)
            left -= sum(pick.size for pick in found)
            picks += found
        if left <= 0:
            break
    return _limit_fresh(picks, wanted.fresh)


def _by_lane(lanes: LaneIndex | None, start: int, end: int) -> Iterator[tuple[Lane, OffsetRange]]:
    """[start, end) in order, in pieces of one lane."""
    while start < end:
        if lanes is None:
            yield Lane.NORMAL, OffsetRange(start, end)
            return
        for lane in LANES:
            offsets = lanes.next_range(lane, start, end)
            if offsets is not None and offsets.start == start:
                yield lane, offsets
                start = offsets.end
                break


def _offer(
    queue: Queue,
    marks: Marks,
    offered: Sequence[Lane],
    readable: OffsetRange,
    lanes: LaneIndex | None,
    wanted: Wanted,
) -> list[Pick]:
    """Of one lane; or of all as one, when `lanes` is None."""
    found = _cut(_returned(queue, marks, offered, readable), wanted.messages)
    left = wanted.messages - sum(pick.size for pick in found)
    if left > 0:
        lane = Lane.NORMAL if lanes is None else offered[0]
        found += _fresh(queue, marks, lane, readable, lanes, min(left, wanted.fresh))
    return found


def _returned(
    queue: Queue, marks: Marks, offered: Sequence[Lane], readable: OffsetRange
) -> Iterator[Pick]:
    for lane in offered:
        for start, end in queue.returned[lane].within(readable.start, readable.end):
            for piece in marks.pieces(start, end):
                yield Pick(lane, piece.start, piece.end, delivery_count(piece.value))


def _fresh(
    queue: Queue,
    marks: Marks,
    lane: Lane,
    readable: OffsetRange,
    lanes: LaneIndex | None,
    want: int,
) -> list[Pick]:
    cursor = ALL_LANES if lanes is None else lane
    picks: list[Pick] = []
    left = want
    offset = max(queue.cursors[cursor], marks.floor, readable.start)
    while left > 0 and offset < readable.end:
        offsets: OffsetRange | None = OffsetRange(offset, readable.end)
        if lanes is not None:
            offsets = lanes.next_range(lane, offset, readable.end)
        if offsets is None:
            offset = readable.end
            break
        fresh = marks.next_fresh(offsets.start, offsets.end)
        if fresh is None:
            offset = offsets.end
            continue
        picks.append(Pick(lane, fresh.start, fresh.end, 0))
        left -= fresh.size
        offset = fresh.end
    if picks:
        queue.cursors[cursor] = picks[0].start
    elif left > 0:
        queue.cursors[cursor] = offset
    return _cut(picks, want)


def _ready_within(queue: Queue, marks: Marks, lane: Lane, offsets: OffsetRange) -> Iterator[Pick]:
    for piece in marks.pieces(offsets.start, offsets.end):
        if piece.value == FRESH:
            yield Pick(lane, piece.start, piece.end, 0)
        elif is_open(piece.value):
            for hold in queue.holds.pieces(piece.start, piece.end):
                if hold.value is None:
                    yield Pick(lane, hold.start, hold.end, delivery_count(piece.value))


def _cut(picks: Iterator[Pick] | list[Pick], size: int) -> list[Pick]:
    """The first `size` messages."""
    kept: list[Pick] = []
    for pick in picks:
        if size <= 0:
            break
        kept.append(pick if pick.size <= size else pick._replace(end=pick.start + size))
        size -= kept[-1].size
    return kept


def _limit_fresh(picks: list[Pick], size: int) -> list[Pick]:
    if sum(pick.size for pick in picks if not pick.deliveries) <= size:
        return picks
    kept: list[Pick] = []
    for pick in picks:
        taken = pick if pick.deliveries else pick._replace(end=min(pick.end, pick.start + size))
        if taken.size > 0:
            kept.append(taken)
            size -= 0 if taken.deliveries else taken.size
    return kept
