"""Frames out of a stream of bytes: a length of four bytes, then that many.

Small frames are cut from a buffer that all connections share. So is the beginning of a larger one,
until enough of it has arrived; then it gets a buffer of its own, into which the socket writes
directly, and which grows only as bytes really arrive. How large a frame may be depends on the
operation, whose number is the first thing in it.
"""

import struct
from typing import Final, Protocol

from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.wire.reading import Malformed

# Frames up to this size are taken out of the shared buffer.
SCRATCH_BYTES: Final = 64 * 1024
# A frame of at least this many bytes is read into a buffer of its own.
OWN_BUFFER_FROM_BYTES: Final = 32 * 1024
# What it gets then, which most frames fit in; it doubles as it fills, whatever length was declared.
FIRST_ROOM_BYTES: Final = 1024 * 1024

# How TLS begins (RFC 8446, 5.1: a handshake, and a version), taken for the length of a frame.
_TLS: Final = 0x1603
_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
_NOTHING: Final = memoryview(b"")


class FrameLimits(Protocol):
    @property
    def largest_bytes(self) -> int: ...
    @property
    def largest_setting(self) -> str: ...
    @property
    def smallest_bytes(self) -> int:
        """No operation has a lower limit."""
        ...

    def bytes_of(self, api_key: int) -> int: ...


class FrameReader:
    """The reading half of a connection. Every byte it holds for a frame is counted in `memory`."""

    def __init__(self, scratch: memoryview, memory: RequestMemory, limits: FrameLimits) -> None:
        self._scratch = scratch
        self._memory = memory
        self._limits = limits
        self._data = _NOTHING
        self._position = 0
        self._unread = b""
        self._partial: bytearray | None = None
        self._partial_size = 0
        self._filled_bytes = 0

    @property
    def partial_bytes(self) -> int:
        """What is held for a frame that is not whole yet."""
        return 0 if self._partial is None else len(self._partial)

    @property
    def missing_bytes(self) -> int:
        """What has to arrive until that frame is whole."""
        return 0 if self._partial is None else self._partial_size - self._filled_bytes

    def hold_to(self, limits: FrameLimits) -> None:
        """From the next frame on."""
        self._limits = limits

    def count_in(self, memory: RequestMemory) -> None:
        """From now on, between two frames."""
        assert self._partial is None
        self._memory = memory

    def buffer(self) -> memoryview:
        """Where the next bytes belong."""
        partial = self._partial
        if partial is None or self._filled_bytes == len(partial):
            return self._scratch
        return memoryview(partial)[self._filled_bytes :]

    def only_frame(self, nbytes: int) -> memoryview | None:
        """The frame if these bytes are exactly one, as most are; None leaves all as it was."""
        if self._partial is not None or self._unread or nbytes < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._scratch)
        if (
            size + _LENGTH.size != nbytes
            or not _API_KEY.size <= size <= self._limits.smallest_bytes
        ):
            return None
        self._memory.take(size)
        return memoryview(bytearray(self._scratch[_LENGTH.size : nbytes]))

    def is_still_partial(self, nbytes: int) -> bool:
        """Whether these bytes make a frame longer that is not whole then; else all is as it was.

        A large request comes in hundreds of pieces, by TLS of 16 KB each. Where memory is tight,
        more is to be done for each.
        """
        partial = self._partial
        if partial is None or self._filled_bytes + nbytes >= len(partial) or self._memory.is_tight:
            return False
        self._filled_bytes += nbytes
        return True

    def arrived(self, nbytes: int) -> None:
        """So many bytes are in the buffer now. Call `next_frame` until it has none, then `keep`."""
        fresh = self._scratch[:nbytes]
        partial = self._partial
        if partial is not None:
            if self._filled_bytes < len(partial):
                self._filled_bytes += nbytes
                return
            fresh = self._lengthened(partial, fresh)
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
        end = start + size
        if size < _API_KEY.size:
            limit, name = self._limits.largest_bytes, self._limits.largest_setting
            raise Malformed(f"frame of {size} bytes; {name} is {limit}")
        if len(self._data) < start + _API_KEY.size:
            # Nothing is known of it yet; its few bytes are kept.
            self._check(size, None)
            return None
        (api_key,) = _API_KEY.unpack_from(self._data, start)
        self._check(size, api_key)
        if len(self._data) < end:
            self._begin(size, self._data[start:])
            return None
        self._position = end
        self._memory.take(size)
        return memoryview(bytearray(self._data[start:end]))

    def _check(self, size: int, api_key: int | None) -> None:
        limit, name = self._limits.largest_bytes, self._limits.largest_setting
        if api_key is not None and size <= limit:
            limit, name = self._limits.bytes_of(api_key), "request.max.bytes"
        if size > limit:
            if size >> 16 == _TLS:
                raise Malformed("it speaks TLS, and this port does not (tls.certificate.file)")
            raise Malformed(f"frame of {size} bytes; {name} is {limit}")

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
        self._partial = bytearray(beginning)
        self._partial_size = size
        self._filled_bytes = len(beginning)
        self._position = len(self._data)
        self._memory.take(len(beginning))
        self._make_room()

    def _lengthened(self, partial: bytearray, fresh: memoryview) -> memoryview:
        """Add what belongs to the frame; returns what does not."""
        taken = fresh[: self._partial_size - self._filled_bytes]
        partial += taken
        self._filled_bytes += len(taken)
        self._memory.take(len(taken))
        return fresh[len(taken) :]

    def _finished(self) -> memoryview | None:
        partial = self._partial
        assert partial is not None
        if self._filled_bytes == self._partial_size:
            self._partial = None
            return memoryview(partial)
        if self._filled_bytes == len(partial):
            self._make_room()
        return None

    def _make_room(self) -> None:
        partial = self._partial
        assert partial is not None
        if len(partial) < OWN_BUFFER_FROM_BYTES or self._memory.is_tight:
            # Who is told to go on when there is memory again gets it here, before the next is told.
            return
        grown = bytearray(min(self._partial_size, max(FIRST_ROOM_BYTES, 2 * len(partial))))
        grown[: len(partial)] = partial
        self._memory.take(len(grown) - len(partial))
        self._partial = grown
