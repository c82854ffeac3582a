"""Batches that were in order and could not be appended for now, and those sent right behind them.

A producer has up to five batches on the way. If the first finds a full disk, the others come out of
order through no fault of the producer, and that is how it must be told: a client that reads "out of
order" begins a new epoch, and what it sends again under that is not known as a repetition any more.
"""

from goqueue.model.batch import BatchHeader
from goqueue.model.errors import GoQueueError
from goqueue.state.producers.producer import (
    MAX_KNOWN_SEQUENCES,
    SEQUENCE_MASK,
    SEQUENCE_WINDOW_BATCHES,
)


class Refusal:
    __slots__ = ("epoch", "followers_left", "kind", "reason", "sequence")

    def __init__(self, header: BatchHeader, error: GoQueueError) -> None:
        self.epoch = header.producer_epoch
        self.sequence = header.base_sequence
        # Not the error itself: its traceback would keep the batch.
        self.kind = type(error)
        self.reason = str(error)
        self.followers_left = SEQUENCE_WINDOW_BATCHES - 1

    def is_before(self, header: BatchHeader) -> bool:
        if header.producer_epoch != self.epoch or header.base_sequence < 0:
            return False
        behind = (header.base_sequence - self.sequence) & SEQUENCE_MASK
        return 0 < behind < MAX_KNOWN_SEQUENCES


class Refusals:
    """The latest of each producer of one partition."""

    __slots__ = ("_by_producer", "_limit")

    def __init__(self, limit: int) -> None:
        self._by_producer: dict[int, Refusal] = {}
        self._limit = limit

    def excuse(self, header: BatchHeader) -> GoQueueError | None:
        """What refused the batch before this one, if that was not sent again yet."""
        refusal = self._by_producer.get(header.producer_id)
        if refusal is None or not refusal.is_before(header):
            return None
        return refusal.kind(
            f"producer {header.producer_id} sent sequence {header.base_sequence} behind "
            f"{refusal.sequence}, which was refused: {refusal.reason}"
        )

    def add(self, header: BatchHeader, error: GoQueueError) -> None:
        """The batch was not appended, be it for a reason of its own or for one before it."""
        before = self._by_producer.get(header.producer_id)
        if before is None or not before.is_before(header):
            if before is None and len(self._by_producer) >= self._limit:
                del self._by_producer[next(iter(self._by_producer))]
            self._by_producer[header.producer_id] = Refusal(header, error)
            return
        before.followers_left -= 1
        if not before.followers_left:
            # All that can have been on the way: what comes now has no excuse.
            del self._by_producer[header.producer_id]

    def end(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        self._by_producer.clear()
