"""Walk a segment file from its first byte, verify every batch, and find the way past bad ones."""

import re
import struct
from collections.abc import Iterator
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
from goqueue.storage.epochs import EpochsOfBatches, LeaderEpochs
from goqueue.storage.open_file import OpenFile

# Large enough that a scan runs at disk speed, small enough to hold for many partitions at once.
WINDOW_BYTES: Final = 1024 * 1024
# A batch counts its offsets with 31 bits, so the next one starts at most this far ahead.
_OFFSET_STEP_MAX: Final = 2**31
# Of an offset, the bytes that a jump of _OFFSET_STEP_MAX leaves alone but for a carry.
_STABLE_OFFSET_BYTES: Final = 4
_OFFSET: Final = struct.Struct(">q")


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
KnownEpochs = LeaderEpochs | EpochsOfBatches


def scan(
    file: OpenFile,
    size: int,
    first_offset: int,
    *,
    epochs: KnownEpochs,
    end_offset: int | None,
) -> Iterator[Scanned]:
    """Yield what the first `size` bytes hold, in order; a `Lost` can only be the last.

    A batch is valid if its checksum fits and its base offset follows on: the base offset stands
    outside the checksummed region, so nothing else would tell a flipped bit in it. The same goes
    for the leader epoch, which must fit `epochs`. `end_offset` is where the offsets end, if that
    is known.
    """
    window = _Window(file, size, epochs)
    position, offset = 0, first_offset
    while position < size:
        try:
            header = window.batch(position, offset)
        except CorruptBatch as error:
            following = _next_batch(window, position, offset, end_offset)
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
            if isinstance(epochs, EpochsOfBatches):
                epochs.found(header.leader_epoch, offset)
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

    def __init__(self, file: OpenFile, size: int, epochs: KnownEpochs) -> None:
        self.size = size
        self._file = file
        self._epochs = epochs
        self._start = 0
        self._data = b""

    def read(self, position: int, length: int = WINDOW_BYTES) -> bytes:
        return self._file.read(min(length, self.size - position), position)

    def load(self, position: int, length: int) -> tuple[bytes, int]:
        """Bytes that hold `length` from `position` on (as far as the file does), and where."""
        if position < self._start or position + length > self._start + len(self._data):
            self._data = self.read(position, max(length, WINDOW_BYTES))
            self._start = position
        return self._data, position - self._start

    def header(self, position: int) -> BatchHeader | None:
        """The header at `position`, whatever it says; None where the file ends too early."""
        if self.size - position < HEADER_BYTES:
            return None
        data, at = self.load(position, HEADER_BYTES)
        return read_header(data, at) if len(data) - at >= HEADER_BYTES else None

    def batch(self, position: int, offset: int) -> BatchHeader:
        """The valid batch at `position`, which starts at `offset`, or `CorruptBatch`."""
        found = self.header(position)
        size = 0 if found is None else found.size_bytes
        data, at = self.load(position, min(max(size, HEADER_BYTES), self.size - position))
        header = check_batch(data, at)
        if header.base_offset != offset:
            raise CorruptBatch(f"batch has base offset {header.base_offset}, expected {offset}")
        if header.last_offset_delta < 0:
            raise CorruptBatch(f"batch has last offset delta {header.last_offset_delta}")
        if not self._has_right_epoch(position, header):
            raise CorruptBatch(
                f"batch has leader epoch {header.leader_epoch}, not one of its place"
            )
        return header

    def _has_right_epoch(self, position: int, header: BatchHeader) -> bool:
        epochs, epoch = self._epochs, header.leader_epoch
        if not epochs.fits(epoch, header.base_offset):
            return False
        if isinstance(epochs, LeaderEpochs) or not epochs.is_new(epoch, header.base_offset):
            return True
        return not self._falls_behind(position, header)

    def _falls_behind(self, position: int, header: BatchHeader) -> bool:
        """Whether what follows has older epochs; two batches must say so, if there are two."""
        epoch = header.leader_epoch
        older = 0
        for _ in range(2):
            position += header.size_bytes
            following = self.header(position)
            if following is None or not follows_on(
                following, header.next_offset, self.size - position
            ):
                break
            if following.leader_epoch >= epoch or following.leader_epoch < 0:
                return False
            older += 1
            header = following
        return older > 0


def _next_batch(
    window: _Window, position: int, offset: int, end_offset: int | None
) -> Found | None:
    """Find the first valid batch behind the bad bytes at `position`."""
    header = window.header(position)
    if header is not None and follows_on(header, offset, window.size - position):
        # The bad batch's header makes sense: look behind it first, so that a message which itself
        # carries a batch is not taken for part of this log.
        found = _valid_at(window, position + header.size_bytes, offset)
        if found is not None and found.header.base_offset == header.next_offset:
            return found
    starts = _batch_starts(offset)
    start = position + 1
    while window.size - start >= HEADER_BYTES:
        chunk = window.read(start)
        last_start = len(chunk) - HEADER_BYTES
        if last_start < 0:
            break
        for match in starts.finditer(chunk):
            if match.start() > last_start:
                break
            found = _valid_at(window, start + match.start(), offset)
            if found is not None and _is_confirmed(window, found, position, offset, end_offset):
                return found
        start += last_start + 1
    return None


def _batch_starts(offset: int) -> re.Pattern[bytes]:
    """Matches, at C speed, where a batch above `offset` may start: offset's high bytes, magic."""
    high = {
        re.escape(_OFFSET.pack(near)[:_STABLE_OFFSET_BYTES])
        for near in (offset, offset + _OFFSET_STEP_MAX)
    }
    rest = MAGIC_POSITION - _STABLE_OFFSET_BYTES
    return re.compile(
        b"(?=(?:%s).{%d}%s)" % (b"|".join(sorted(high)), rest, bytes([MAGIC_V2])), re.DOTALL
    )


def _valid_at(window: _Window, position: int, offset: int) -> Found | None:
    """The valid batch at `position` if it lies at or above `offset`, as the next here must."""
    header = window.header(position)
    if (
        header is None
        or not offset <= header.base_offset <= offset + _OFFSET_STEP_MAX
        or not follows_on(header, header.base_offset, window.size - position)
    ):
        return None
    try:
        return Found(position, window.batch(position, header.base_offset))
    except CorruptBatch:
        return None


def _is_confirmed(
    window: _Window, found: Found, position: int, offset: int, end_offset: int | None
) -> bool:
    """Whether a batch found behind bad bytes belongs here with the base offset it has.

    Its base offset has no checksum and may be among the bad bytes, and it may be one that a message
    carries as its value. So what follows must be the start of the next batch. At the end of the
    file, its end must be the right one, or at least not skip more offsets than bytes went bad.
    """
    next_offset = found.header.next_offset
    following = window.read(found.position + found.header.size_bytes, _OFFSET.size)
    if following:
        return following == _OFFSET.pack(next_offset)
    if end_offset is not None:
        return next_offset == end_offset
    return found.header.base_offset - offset <= found.position - position
