"""One producer as a partition knows it, and the arithmetic of its sequence numbers."""

from collections import deque
from typing import Final, NamedTuple

# Producers keep at most five requests in flight, so a retry is never older than that
# (`max.in.flight.requests.per.connection` of idempotent producers).
SEQUENCE_WINDOW_BATCHES: Final = 5

# Sequences are 31-bit: after 2,147,483,647 comes 0.
SEQUENCE_MASK: Final = 0x7FFF_FFFF

# Beyond half the number space, older and newer can no longer be told apart.
MAX_KNOWN_SEQUENCES: Final = 1 << 30

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class StoredBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class Producer:
    """Mutable on purpose: one of these changes with every idempotent batch."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "known_sequences",
        "last_sequence",
        "last_timestamp_ms",
        "last_used_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = NO_EPOCH
        self.last_sequence = -1
        self.last_timestamp_ms = -1
        self.last_used_ms = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: deque[StoredBatch] = deque(maxlen=SEQUENCE_WINDOW_BATCHES)
        # How many sequences up to `last_sequence` are known to be stored, without a gap.
        self.known_sequences = 0

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.last_sequence = -1
            self.known_sequences = 0

    def add(self, batch: StoredBatch) -> None:
        count = ((batch.last_sequence - batch.first_sequence) & SEQUENCE_MASK) + 1
        if self.batches and batch.first_sequence == (self.last_sequence + 1) & SEQUENCE_MASK:
            self.known_sequences = min(self.known_sequences + count, MAX_KNOWN_SEQUENCES)
        else:
            self.known_sequences = count
        self.last_sequence = batch.last_sequence
        self.batches.append(batch)

    def has_stored(self, first_sequence: int, last_sequence: int) -> bool:
        """Whether all these sequences were stored in this epoch, windowed or not."""
        age_of_first = (self.last_sequence - first_sequence) & SEQUENCE_MASK
        age_of_last = (self.last_sequence - last_sequence) & SEQUENCE_MASK
        return age_of_last <= age_of_first < self.known_sequences

    def find(self, first_sequence: int, last_sequence: int) -> StoredBatch | None:
        for batch in self.batches:
            if batch[0] == first_sequence and batch[1] == last_sequence:
                return batch
        return None
