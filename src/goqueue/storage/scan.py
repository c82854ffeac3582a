"""Walk a segment file from its first byte, verify every batch, and find the way past bad ones."""

import re
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from goqueue.model.batch import (
    HEADER_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    check_batch,
    read_header,
)
from goqueue.model.errors import CorruptBatch
from goqueue.storage.damage import Gap
from goqueue.storage.epochs import NO_EPOCH
from goqueue.storage.open_file import OpenFile

# Large enough that a scan runs at disk speed, small enough to hold for many partitions at once.
WINDOW_BYTES: Final = 1024 * 1024
# A batch counts its offsets with 31 bits, so the next one starts at most this far ahead.
_OFFSET_STEP_MAX: Final = 2**31
# Of an offset, the bytes that a jump of _OFFSET_STEP_MAX leaves alone but for a carry.
_STABLE_OFFSET_BYTES: Final = 4


class Found(NamedTuple):
    """A whole, verified batch."""

    position: int
    header: BatchHeader


class Lost(NamedTuple):
    """Bytes up to the end of the file in which no batch was found."""

    position: int
    first_offset: int
    reason: str


Scanned = Found | Gap | Lost
ExpectedEpoch = Callable[[int], tuple[int, int]]


def scan(
    file: OpenFile, size: int, first_offset: int, expected_epoch: ExpectedEpoch
) -> Iterator[Scanned]:
    """Yield what the first `size` bytes hold, in order; a `Lost` can only be the last.

    A batch is valid if its checksum fits and its base offset follows on: the base offset stands
    outside the checksummed region, so nothing else would tell a flipped bit in it. The same goes
    for the leader epoch, which `expected_epoch` knows (see `LeaderEpochs.covering`).
    """
    window = _Window(file, size, expected_epoch)
    position, offset = 0, first_offset
    while position < size:
        try:
            header = window.batch(position, offset)
        except CorruptBatch as error:
            following = _next_batch(file, window, position, offset)
            if following is None:
                yield Lost(position, offset, error.message)
                return
            yield Gap(
                position=position,
                end_position=following.position,
                first_offset=offset,
                next_offset=following.header.base_offset,
                reason=error.message,
            )
            position, offset = following.position, following.header.base_offset
        else:
            yield Found(position, header)
            position += header.size_bytes
            offset = header.next_offset


def follows_on(header: BatchHeader, offset: int, available: int) -> bool:
    """Whether this can be the header of the batch that starts at `offset`; no checksum."""
    return (
        header.base_offset == offset
        and header.magic == MAGIC_V2
        and HEADER_BYTES <= header.size_bytes <= available
        and header.last_offset_delta >= 0
    )


class _Window:
    """A stretch of the file in memory, moved along as needed."""

    def __init__(self, file: OpenFile, size: int, expected_epoch: ExpectedEpoch) -> None:
        self._file = file
        self._size = size
        self._expected_epoch = expected_epoch
        self._start = 0
        self._data = b""

    def load(self, position: int, length: int) -> tuple[bytes, int]:
        """Bytes that hold `length` from `position` on (as far as the file does), and where."""
        if position < self._start or position + length > self._start + len(self._data):
            wanted = min(max(length, WINDOW_BYTES), self._size - position)
            self._data = self._file.read(wanted, position)
            self._start = position
        return self._data, position - self._start

    def batch(self, position: int, offset: int) -> BatchHeader:
        """The valid batch at `position`, which starts at `offset`, or `CorruptBatch`."""
        data, at = self.load(position, HEADER_BYTES)
        if len(data) - at >= HEADER_BYTES:
            size = read_header(data, at).size_bytes
            if HEADER_BYTES <= size <= self._size - position:
                data, at = self.load(position, size)
        header = check_batch(data, at)
        if header.base_offset != offset:
            raise CorruptBatch(f"batch has base offset {header.base_offset}, expected {offset}")
        if header.last_offset_delta < 0:
            raise CorruptBatch(f"batch has last offset delta {header.last_offset_delta}")
        epoch, _ = self._expected_epoch(offset)
        if epoch not in (header.leader_epoch, NO_EPOCH):
            raise CorruptBatch(f"batch has leader epoch {header.leader_epoch}, expected {epoch}")
        return header


def _next_batch(file: OpenFile, window: _Window, position: int, offset: int) -> Found | None:
    """Find the first valid batch behind the bad bytes at `position`."""
    size = window._size
    data, at = window.load(position, HEADER_BYTES)
    if len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if follows_on(header, offset, size - position):
            # The bad batch's header makes sense: look behind it first, so that a message which
            # itself carries a batch is not taken for part of this log.
            found = _valid_at(window, position + header.size_bytes, offset)
            if found is not None:
                return found
    start = position + 1
    starts = _batch_starts(offset)
    while size - start >= HEADER_BYTES:
        chunk = file.read(min(WINDOW_BYTES, size - start), start)
        if len(chunk) < HEADER_BYTES:
            break
        last_start = len(chunk) - HEADER_BYTES
        for match in starts.finditer(chunk):
            if match.start() > last_start:
                break
            found = _valid_at(window, start + match.start(), offset)
            if found is not None and _leads_on(window, found):
                return found
        start += last_start + 1
    return None


def _batch_starts(offset: int) -> re.Pattern[bytes]:
    """Matches, at C speed, where a batch above `offset` may start: offset's high bytes, magic."""
    high = {
        re.escape(struct.pack(">q", near)[:_STABLE_OFFSET_BYTES])
        for near in (offset, offset + _OFFSET_STEP_MAX)
    }
    rest = MAGIC_POSITION - _STABLE_OFFSET_BYTES
    return re.compile(
        b"(?=(?:%s).{%d}%s)" % (b"|".join(sorted(high)), rest, bytes([MAGIC_V2])), re.DOTALL
    )


def _valid_at(window: _Window, position: int, offset: int) -> Found | None:
    """The valid batch at `position` if it lies above `offset`, as the next in this log must."""
    if window._size - position < HEADER_BYTES:
        return None
    data, at = window.load(position, HEADER_BYTES)
    if len(data) - at < HEADER_BYTES:
        return None
    header = read_header(data, at)
    if not offset < header.base_offset <= offset + _OFFSET_STEP_MAX:
        return None
    if not follows_on(header, header.base_offset, window._size - position):
        return None
    try:
        return Found(position, window.batch(position, header.base_offset))
    except CorruptBatch:
        return None


def _leads_on(window: _Window, found: Found) -> bool:
    """Whether the file ends behind the batch or goes on with what looks like the next one.

    A batch carried as a message's value fails this, since the rest of its record follows it.
    """
    position = found.position + found.header.size_bytes
    if position == window._size:
        return True
    data, at = window.load(position, HEADER_BYTES)
    if len(data) - at > MAGIC_POSITION and data[at + MAGIC_POSITION] == MAGIC_V2:
        return True
    return data[at : at + 8] == struct.pack(">q", found.header.next_offset)
