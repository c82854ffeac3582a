"""What a compaction worker is told to do, and what it answers."""

from typing import Final, NamedTuple

import msgspec

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.decoding_bounds import UNPACKED_MAX_BYTES
from goqueue.storage.epochs import EpochStart

# About 110 bytes each with its dictionary: a worker stays below 100 MB. A run that meets more keys
# ends there, and the next one goes on.
KEYS_MAX: Final = 500_000
# Of what is read. More would take the disk and the page cache from the broker.
BYTES_PER_SECOND_MAX: Final = 100 * 1024 * 1024
# What a worker may take: 40 MB for the interpreter, 100 MB for keys, some to spare; and a batch is
# held up to eight times over: packed, unpacked, as records, and written again.
MEMORY_BASE_BYTES: Final = 256 * 1024 * 1024
MEMORY_PER_UNPACKED_BYTE: Final = 8


class SegmentToClean(NamedTuple):
    base_offset: int
    next_offset: int
    size_bytes: int


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    # Part of the file names, so that a worker whose broker died is in nobody's way.
    token: str
    # All closed segments that are or become clean, from the log's first one on.
    segments: tuple[SegmentToClean, ...]
    first_dirty_offset: int
    epochs: tuple[EpochStart, ...]
    aborted: tuple[AbortedTransaction, ...]
    # Producers that may still send, and batches of theirs whose headers must stay.
    producers: dict[int, tuple[int, ...]]
    forget_tombstones_before: int
    forget_markers_before: int
    segment_bytes: int
    index_interval_bytes: int
    # Of one batch; what unpacks to more stays as it is.
    unpacked_max_bytes: int = UNPACKED_MAX_BYTES
    keys_max: int = KEYS_MAX
    bytes_per_second_max: int = BYTES_PER_SECOND_MAX
    memory_base_bytes: int = MEMORY_BASE_BYTES
    memory_per_unpacked_byte: int = MEMORY_PER_UNPACKED_BYTE

    @property
    def memory_max_bytes(self) -> int:
        return self.memory_base_bytes + self.memory_per_unpacked_byte * self.unpacked_max_bytes


class CleanedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that takes the place of one or more neighbours."""

    base_offset: int
    next_offset: int
    size_bytes: int
    replaced: tuple[int, ...]


class Compacted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the worker made. Below `end_offset` no key has more than one record."""

    segments: tuple[CleanedSegment, ...]
    end_offset: int
    removed_markers: tuple[int, ...]
    bytes_before: int
    bytes_after: int
    records_removed: int
    # Not decoded, and so kept whole.
    undecoded_batches: int = 0


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was changed. `is_lasting`: trying again would end the same way."""

    reason: str
    is_lasting: bool = False


Answer = Compacted | Failed
