"""Frames out of a stream of bytes: a length of four bytes, then that many.

Small frames are cut from a buffer that all connections share. A larger one gets a buffer of its
own, into which the socket then writes directly, and which grows only as bytes really arrive.
"""

import struct
from typing import Final

from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.wire.reading import Malformed

# Frames up to this size are taken out of the shared buffer.
SCRATCH_BYTES: Final = 64 * 1024
# Reserved at first for a larger frame; it doubles as it fills, whatever length was declared.
FRAME_RESERVE_BYTES: Final = 1024 * 1024

_LENGTH: Final = struct.Struct(">i")
_NOTHING: Final = memoryview(b"")


class FrameReader:
    """The reading half of a connection. Every byte it holds for a frame is counted in `memory`."""

    def __init__(self, scratch: memoryview, memory: RequestMemory, limit_bytes: int) -> None:
        self._scratch = scratch
        self._memory = memory
        self._limit_bytes = limit_bytes
        self._data = _NOTHING
        self._position = 0
        self._unread = b""
        self._partial: bytearray | None = None
        self._partial_size = 0
        self._filled_bytes = 0

    def buffer(self) -> memoryview:
        """Where the next bytes belong."""
        if self._partial is None:
            return self._scratch
        return memoryview(self._partial)[self._filled_bytes :]

    def only_frame(self, nbytes: int) -> memoryview | None:
        """The frame if these bytes are exactly one, as most are; None leaves all as it was."""
        if self._partial is not None or self._unread or nbytes < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._scratch)
        if size + _LENGTH.size != nbytes or size > self._limit_bytes:
            return None
        self._memory.take(size)
        return memoryview(bytearray(self._scratch[_LENGTH.size : nbytes]))

    def arrived(self, nbytes: int) -> None:
        """So many bytes are in the buffer now. Call `next_frame` until it has none, then `keep`."""
        if self._partial is not None:
            self._filled_bytes += nbytes
            return
        fresh = self._scratch[:nbytes]
        self._data = memoryview(self._unread + bytes(fresh)) if self._unread else fresh
        self._position = 0
        self._unread = b""

    def next_frame(self) -> memoryview | None:
        """The next whole frame; its size stays counted until the caller gives it back."""
        if self._partial is not None:
            return self._finished()
        start = self._position + _LENGTH.size
        if len(self._data) < start:
            return None
        (size,) = _LENGTH.unpack_from(self._data, self._position)
        if not 0 <= size <= self._limit_bytes:
            raise Malformed(
                f"frame of {size} bytes; socket.request.max.bytes is {self._limit_bytes}"
            )
        end = start + size
        if len(self._data) < end:
            self._begin(size, self._data[start:])
            return None
        self._position = end
        self._memory.take(size)
        return memoryview(bytearray(self._data[start:end]))

    def keep(self) -> None:
        """Copy what was not taken: the shared buffer is somebody else's next."""
        self._unread = bytes(self._data[self._position :])
        self._data = _NOTHING
        self._position = 0

    def drop(self) -> None:
        if self._partial is not None:
            self._memory.give_back(len(self._partial))
            self._partial = None
        self._unread = b""
        self._data = _NOTHING
        self._position = 0

    def _begin(self, size: int, beginning: memoryview) -> None:
        self._partial = bytearray(min(size, FRAME_RESERVE_BYTES))
        self._partial[: len(beginning)] = beginning
        self._partial_size = size
        self._filled_bytes = len(beginning)
        self._position = len(self._data)
        self._memory.take(len(self._partial))

    def _finished(self) -> memoryview | None:
        partial = self._partial
        assert partial is not None
        if self._filled_bytes == self._partial_size:
            self._partial = None
            return memoryview(partial)
        if self._filled_bytes == len(partial):
            grown = bytearray(min(self._partial_size, 2 * len(partial)))
            grown[: len(partial)] = partial
            self._memory.take(len(grown) - len(partial))
            self._partial = grown
        return None
