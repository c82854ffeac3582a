"""Producer ids out of blocks that the metadata store hands to this broker."""

from collections import deque
from typing import Final

# Kafka's block size: one metadata write per thousand producers.
BLOCK_SIZE: Final = 1000

# Ask for the next block before the last id is gone, so that nobody waits for it.
LOW_WATER_IDS: Final = BLOCK_SIZE // 10


class ProducerIds:
    """`take` is what a `TransactionMachine` gets as `next_producer_id`; the runtime fetches a block
    whenever `is_low`. Ids left over at a crash are lost, never given out twice."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, int]] = deque()
        self._left = 0

    @property
    def is_low(self) -> bool:
        return self._left <= LOW_WATER_IDS

    def add_block(self, first_id: int, count: int = BLOCK_SIZE) -> None:
        self._blocks.append((first_id, first_id + count))
        self._left += count

    def take(self) -> int | None:
        """Return a new id, or None when the next block is not there yet."""
        if not self._left:
            return None
        self._left -= 1
        producer_id, end = self._blocks.popleft()
        if producer_id + 1 < end:
            self._blocks.appendleft((producer_id + 1, end))
        return producer_id
