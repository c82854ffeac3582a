"""Read whole, verified batches from a row of segments."""

import errno
import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.model.batch import CHECKSUMMED_FROM, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC_V2
from goqueue.storage.epochs import NO_EPOCH, LeaderEpochs
from goqueue.storage.segment import Segment

# Sequential readers whose place is remembered; when more come the map is simply started anew.
_READ_ENDS_MAX: Final = 64
# The header up to and including the last offset delta: all that is needed on the fetch path.
_HEADER_START: Final = struct.Struct(">qiibIhi")


class LogRead(NamedTuple):
    """Whole verified batches; empty when there is nothing (yet) to read."""

    data: bytes
    next_offset: int


class LogReader:
    """Reads on behalf of any thread, and remembers where recent reads ended."""

    __slots__ = ("_ends", "_epochs")

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._ends: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        """Positions have changed: the log was truncated or segments were swapped."""
        self._ends = {}

    def read(
        self,
        segment: Segment,
        offset: int,
        max_bytes: int,
        up_to: int,
        at_least_one: bool,
        may_block: bool,
    ) -> LogRead:
        """See `PartitionLog.read`; `offset` is below `up_to` and in this segment."""
        end = self._ends.get(offset)
        if end is not None and end[0] is segment and end[1] < segment.size_bytes:
            place = end[1], offset
        else:
            place = segment.locate(offset, may_block=may_block)
        read = self._read(segment, place, offset, max_bytes, up_to, at_least_one, may_block)
        if read is None:
            # The first batch is bad. Now that its segment is inspected, either the way to the
            # offset leads past it, or locating the offset raises what is wrong with it.
            segment.inspect(may_block=may_block)
            place = segment.locate(offset, may_block=may_block)
            read = self._read(segment, place, offset, max_bytes, up_to, at_least_one, may_block)
            if read is None:
                raise segment.corrupt(offset)
        return read

    def _read(
        self,
        segment: Segment,
        place: tuple[int, int],
        offset: int,
        max_bytes: int,
        up_to: int,
        at_least_one: bool,
        may_block: bool,
    ) -> LogRead | None:
        """Read from the batch at `place` on; None when that one is damaged."""
        position, base_offset = place
        epoch, epoch_end = self._epochs.covering(base_offset)
        # Reads end where the epoch does: few meet that, and all others check against one epoch.
        up_to = min(up_to, epoch_end)
        available = segment.size_bytes - position
        file = segment.reader(may_block=may_block).file
        wanted = min(max(max_bytes, HEADER_BYTES), available)
        while True:
            data = file.read(wanted, position, may_block=may_block)
            whole = whole_batches(data, base_offset, up_to=up_to, epoch=epoch)
            if whole.size_bytes or not wanted < whole.cut_batch_bytes <= available:
                break
            if not at_least_one:
                return LogRead(b"", offset)
            wanted = whole.cut_batch_bytes
        size = whole.size_bytes
        if size == 0:
            if len(data) < wanted and not may_block:
                raise BlockingIOError(errno.EAGAIN, "batch is not in memory", str(file.path))
            if whole.is_damaged or whole.cut_batch_bytes or len(data) < HEADER_BYTES:
                return None
            return LogRead(b"", offset)
        if size > max_bytes and not at_least_one:
            return LogRead(b"", offset)
        if len(self._ends) >= _READ_ENDS_MAX:
            self.forget()
        self._ends[whole.next_offset] = (segment, position + size)
        return LogRead(data if size == len(data) else data[:size], whole.next_offset)


def read_one_batch(segment: Segment, offset: int, guess_bytes: int) -> bytes | None:
    """The batch that holds `offset`, by a single read of what is in memory.

    None if the index does not lead right to it, or if it is larger than the guess, not in memory or
    damaged: then the common way finds out more.
    """
    reader = segment.reader(may_block=False)
    relative_offset, position = reader.index.by_offset(offset - segment.base_offset)
    size = min(guess_bytes, segment.size_bytes - position)
    data = reader.file.read(size, position, may_block=False)
    if len(data) < HEADER_BYTES:
        return None
    base_offset, length, _, magic, checksum, _, last_delta = _HEADER_START.unpack_from(data)
    end = length + LENGTH_PREFIX_BYTES
    if (
        base_offset != segment.base_offset + relative_offset
        or magic != MAGIC_V2
        or not base_offset <= offset <= base_offset + last_delta
        or not HEADER_BYTES <= end <= len(data)
        or crc32c(memoryview(data)[CHECKSUMMED_FROM:end]) != checksum
    ):
        return None
    return data[:end]


class WholeBatches(NamedTuple):
    """How far some bytes hold whole batches that may be served."""

    size_bytes: int
    next_offset: int
    # The whole size of a batch that begins in the bytes but does not end there; else 0.
    cut_batch_bytes: int
    is_damaged: bool


def whole_batches(data: bytes, offset: int, *, up_to: int, epoch: int) -> WholeBatches:
    """Verify batch by batch from `offset` (the first one's base offset) on.

    Ends before the first batch that is cut, is damaged, or reaches over `up_to`.
    """
    view = memoryview(data)
    end = len(data)
    position = 0
    while offset < up_to and position + HEADER_BYTES <= end:
        base_offset, length, batch_epoch, magic, checksum, _, last_delta = (
            _HEADER_START.unpack_from(data, position)
        )
        size = length + LENGTH_PREFIX_BYTES
        if (
            base_offset != offset
            or magic != MAGIC_V2
            or size < HEADER_BYTES
            or last_delta < 0
            or (batch_epoch != epoch and epoch != NO_EPOCH)
        ):
            return WholeBatches(position, offset, 0, True)
        batch_end = position + size
        if batch_end > end:
            return WholeBatches(position, offset, size, False)
        if crc32c(view[position + CHECKSUMMED_FROM : batch_end]) != checksum:
            return WholeBatches(position, offset, 0, True)
        next_offset = offset + last_delta + 1
        if next_offset > up_to:
            break
        position, offset = batch_end, next_offset
    return WholeBatches(position, offset, 0, False)
