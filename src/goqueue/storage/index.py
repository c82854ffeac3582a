"""The sparse index of a segment: from offset or time to a position in the log file.

In memory it is two parallel arrays with an entry about every `index.interval.bytes` of log. On disk
it is two files of fixed-size big-endian entries, written whole when the segment closes:

    .index      8 bytes: offset relative to the segment's base, position in the log file
    .timeindex  16 bytes: largest timestamp before that offset, offset; one more entry at the
                end holds the segment's largest timestamp and its next offset

Behind the entries of `.index` stands which log file it was made for (`origin`). The last entry of
each file is a seal with a checksum that also covers the size of the log file. A
file without a valid seal is thrown away and rebuilt from the log, so a crash cannot leave an index
that lies, and index files need no fsync.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from goqueue.model.batch import NO_TIMESTAMP
from goqueue.storage.origin import ORIGIN_BYTES, Origin, decode_origin

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 16
# Relative offsets share an unsigned 64-bit entry with a position; a signed half is plenty.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_LOW_HALF: Final = 0xFFFFFFFF
_SEAL_MARK: Final = 0x474F5131
_SEAL: Final = struct.Struct(">II")
_LOG_SIZE: Final = struct.Struct(">q")
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"


class SegmentIndex:
    """Grows by `add`, in log order, by one thread; look-ups are safe from any."""

    __slots__ = ("_places", "_times")

    def __init__(self) -> None:
        self._places = array("Q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._times)

    def add(self, relative_offset: int, position: int, max_timestamp_before_ms: int) -> None:
        self._places.append(relative_offset << 32 | position)
        self._times.append(max_timestamp_before_ms)

    def by_offset(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or before the offset, as (relative offset, position)."""
        return self._entry(bisect_right(self._places, relative_offset << 32 | _LOW_HALF) - 1)

    def by_time(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry before which every timestamp is lower, as (relative offset, position).

        The running maximum never falls, so this holds for producers' timestamps in any order.
        """
        return self._entry(bisect_left(self._times, timestamp_ms) - 1)

    def before(self, position: int) -> "SegmentIndex":
        """The entries of a log file that is cut at `position`."""
        kept = bisect_left(self._places, position, key=lambda place: place & _LOW_HALF)
        cut = SegmentIndex()
        cut._places, cut._times = self._places[:kept], self._times[:kept]
        return cut

    def last(self) -> tuple[int, int]:
        """The relative offset of the last entry, and the largest timestamp before it."""
        return (self._places[-1] >> 32, self._times[-1]) if self else (0, NO_TIMESTAMP)

    def _entry(self, number: int) -> tuple[int, int]:
        if number < 0:
            return 0, 0
        place = self._places[number]
        return place >> 32, place & _LOW_HALF


@dataclass(frozen=True, slots=True)
class SealedIndex:
    """What the two index files of a closed segment say."""

    index: SegmentIndex
    max_timestamp_ms: int
    next_offset: int


def encode_index(
    sealed: SealedIndex, base_offset: int, log_size: int, origin: Origin | None
) -> tuple[bytes, bytes]:
    """The contents of the `.index` and `.timeindex` files."""
    places, times = sealed.index._places, sealed.index._times
    timed = array("q", bytes(TIME_ENTRY_BYTES * len(times)))
    timed[0::2] = times
    timed[1::2] = array("q", [base_offset + (place >> 32) for place in places])
    timed.extend((sealed.max_timestamp_ms, sealed.next_offset))
    return (
        _seal(
            _swapped(places).tobytes() + (b"" if origin is None else origin.encode()),
            OFFSET_ENTRY_BYTES,
            log_size,
        ),
        _seal(_swapped(timed).tobytes(), TIME_ENTRY_BYTES, log_size),
    )


def decode_index(by_offset: bytes, by_time: bytes, log_size: int) -> SealedIndex | None:
    """Read both files; None when either is not what was sealed for a log of this size."""
    place_bytes = _unseal(by_offset, OFFSET_ENTRY_BYTES, log_size)
    timed_bytes = _unseal(by_time, TIME_ENTRY_BYTES, log_size)
    if place_bytes is None or timed_bytes is None:
        return None
    if stored_origin(by_offset) is not None:
        place_bytes = place_bytes[:-ORIGIN_BYTES]
    index = SegmentIndex()
    index._places = _swapped(array("Q", place_bytes))
    timed = _swapped(array("q", timed_bytes))
    if len(timed) != 2 * (len(index._places) + 1):
        return None
    index._times = timed[:-2:2]
    return SealedIndex(index, max_timestamp_ms=timed[-2], next_offset=timed[-1])


def encode_open_index(origin: Origin) -> bytes:
    """The `.index` file of a segment that takes appends: no entries, no valid seal."""
    return origin.encode().ljust(ORIGIN_BYTES + OFFSET_ENTRY_BYTES, b"\0")


def stored_origin(by_offset: bytes) -> Origin | None:
    """Which log file this `.index` was made for; it is checked apart from the entries.

    None in files of earlier releases, which did not note it.
    """
    return decode_origin(by_offset[-ORIGIN_BYTES - OFFSET_ENTRY_BYTES : -OFFSET_ENTRY_BYTES])


def _swapped(values: "array[int]") -> "array[int]":
    if not _IS_LITTLE_ENDIAN:
        return values
    copy = values[:]
    copy.byteswap()
    return copy


def _seal(entries: bytes, entry_bytes: int, log_size: int) -> bytes:
    checksum = crc32c(entries, crc32c(_LOG_SIZE.pack(log_size)))
    return entries + _SEAL.pack(_SEAL_MARK, checksum).rjust(entry_bytes, b"\0")


def _unseal(stored: bytes, entry_bytes: int, log_size: int) -> bytes | None:
    if len(stored) < entry_bytes or len(stored) % entry_bytes:
        return None
    entries = stored[:-entry_bytes]
    return entries if _seal(entries, entry_bytes, log_size) == stored else None
