"""How much of one batch may be unpacked: a few KB of zstd hold gigabytes."""

from typing import Final, NamedTuple

from goqueue.model.batch import RECORD_BYTES_MIN
from goqueue.model.settings import INT32_MAX

# 32 times the largest batch that a topic takes by default: JSON and logs pack to about a tenth.
UNPACKED_MAX_BYTES: Final = 32 * 1024 * 1024
# A decoded record takes some 350 bytes beside its key and value, so that a batch of tiny ones takes
# twice the bound at most. The largest uncompressed batch of default size is still within it.
BYTES_PER_RECORD: Final = 200


class DecodingBounds(NamedTuple):
    unpacked_bytes: int
    records: int

    @classmethod
    def of_bytes(cls, unpacked_bytes: int) -> "DecodingBounds":
        return cls(unpacked_bytes, max(1, unpacked_bytes // BYTES_PER_RECORD))

    @classmethod
    def of_own(cls, size_bytes: int) -> "DecodingBounds":
        """For a batch that the broker made itself: it is as large as it is, and not compressed."""
        return cls(max(size_bytes, UNPACKED_MAX_BYTES), INT32_MAX)


DEFAULT_BOUNDS: Final = DecodingBounds.of_bytes(UNPACKED_MAX_BYTES)
# What is decoded on the event loop: a few milliseconds, and some twenty if it is nothing but empty
# headers, of two bytes each.
ON_LOOP_BOUNDS: Final = DecodingBounds(64 * 1024, 2_500)
# What several threads may decode at the same time: the largest batch of default size. Larger ones
# take their turns, so that their memory does not add up.
SIDE_BY_SIDE_BOUNDS: Final = DecodingBounds(1024 * 1024, 1024 * 1024 // RECORD_BYTES_MIN)
