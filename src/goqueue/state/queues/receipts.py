"""Whether a consumer may say what becomes of messages."""

from itertools import pairwise

from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Acknowledgement
from goqueue.state.queues.holds import Hold, HoldKind
from goqueue.state.queues.ledger import Marks
from goqueue.state.queues.marks import delivery_count, is_open
from goqueue.state.queues.queue import Queue


def check_items(items: tuple[Acknowledgement, ...], member: str | None) -> bool:
    """Whether the request makes sense at all."""
    return all(
        0 <= item.offsets.start < item.offsets.end
        and (item.delay_ms is None or item.delay_ms >= 0)
        and (member is not None or item.lease_id is not None)
        for item in items
    )


def overlap(items: tuple[Acknowledgement, ...]) -> bool:
    ranges = sorted(item.offsets for item in items)
    return any(a.end > b.start for a, b in pairwise(ranges))


def check_receipt(
    queue: Queue, marks: Marks, item: Acknowledgement, member: str | None, now_ms: int
) -> QueueError:
    """NONE, or what is wrong with the first offset that this receipt does not cover."""
    start, end = item.offsets
    for piece in marks.pieces(start, end):
        if not is_open(piece.value):
            return QueueError.RECEIPT_SETTLED
        deliveries = delivery_count(piece.value)
        for held in queue.holds.pieces(piece.start, piece.end):
            error = _check_hold(held.value, deliveries, item, member, now_ms)
            if error is not QueueError.NONE:
                return error
    return QueueError.NONE


def _check_hold(
    hold: Hold | None, deliveries: int, item: Acknowledgement, member: str | None, now_ms: int
) -> QueueError:
    claimed = deliveries if item.delivery_count is None else item.delivery_count
    if not 0 < claimed <= deliveries:
        return QueueError.RECEIPT_UNKNOWN
    if claimed < deliveries:
        return QueueError.RECEIPT_REDELIVERED
    if hold is None or hold.kind is not HoldKind.LEASED or hold.deadline_ms <= now_ms:
        return QueueError.RECEIPT_EXPIRED
    if item.lease_id is not None and item.lease_id != hold.lease_id:
        # Without a count, an older receipt of the same offset cannot be told from a forged one.
        known = item.delivery_count is None
        return QueueError.RECEIPT_REDELIVERED if known else QueueError.RECEIPT_UNKNOWN
    if member is not None and member != hold.member:
        return QueueError.RECEIPT_FOREIGN
    return QueueError.NONE
