"""A few bytes searched for in many: 33 µs per MB, where `bytes.find` takes 300 to 600 µs."""

from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import BytesAhoCorasick

from goqueue.model.batch import Buffer

# The library finds all places or none. What has the pattern has it early as a rule, so that a look
# at this much of the beginning saves a list of the thousands that follow.
FIRST_LOOK_BYTES: Final = 4_096


class BytePattern:
    def __init__(self, pattern: bytes) -> None:
        self.size_bytes: Final = len(pattern)
        # With a single pattern, this library searches by vector instructions.
        self._find: Final = BytesAhoCorasick([pattern]).find_matches_as_indexes

    def is_in(self, data: Buffer) -> bool:
        if len(data) > FIRST_LOOK_BYTES and self._find(memoryview(data)[:FIRST_LOOK_BYTES]):
            return True
        return bool(self._find(data))

    def places_in(self, data: Buffer) -> Iterator[int]:
        """Where it begins, in order; looks no further than the caller asks."""
        view = memoryview(data)
        start, size = 0, FIRST_LOOK_BYTES
        while start < len(view):
            # One that lies across the end of this piece is found in the next.
            next_start = start + size - self.size_bytes + 1
            for _, place, place_end in self._find(view[start : start + size]):
                yield start + place
                next_start = max(next_start, start + place_end)
            start = next_start
            size *= 2
