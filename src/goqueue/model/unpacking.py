"""Unpacking compressed batches within a bound: a few KB may unpack to gigabytes.

Memory is taken step by step as it fills, so that a batch costs what it holds, and never more than
its bounds allow.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import cramjam

from goqueue.model.batch import HEADER_BYTES, RECORD_BYTES_MIN, BatchHeader, Buffer
from goqueue.model.decoding_bounds import BYTES_PER_RECORD, DecodingBounds
from goqueue.model.errors import CorruptBatch, UnpackedTooLarge


class Room(NamedTuple):
    """Bytes before and after what is unpacked."""

    before: int
    after: int


NO_ROOM: Final = Room(0, 0)

Unpacker = Callable[[memoryview, int, Room], memoryview | bytes]

# The first step of the memory; most batches need no other.
_FIRST_STEP_BYTES: Final = 64 * 1024
_EXPECTED_RATIO: Final = 8
_STEP_FACTOR: Final = 4
# What cramjam says when the room it was given is full.
_FULL: Final = "failed to write whole buffer"
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
# What Java's library puts before its blocks: a mark of 8 bytes and two versions of 4.
_XERIAL_MARK: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_SIZE_BYTES: Final = 4
# The lengths of a record header's name and value.
HEADER_BYTES_MIN: Final = 2
_VARINT_BITS_MAX: Final = 70


def unpack(batch: Buffer, header: BatchHeader, bounds: DecodingBounds) -> memoryview | bytes:
    """The records of a whole batch as they are without compression.

    Raises `UnpackedTooLarge` beyond the bounds and `CorruptBatch` for what no codec made.
    """
    return _unpack(batch, header, bounds, NO_ROOM)


def unpack_in_room(
    batch: Buffer, header: BatchHeader, bounds: DecodingBounds, room: Room
) -> tuple[bytearray, int]:
    """As `unpack`, in a buffer of their own with room around them, and how many bytes they are."""
    payload = _unpack(batch, header, bounds, room)
    if header.compression in _LEAVES_ROOM and isinstance(payload, memoryview):
        holder = payload.obj
        assert isinstance(holder, bytearray)
        return holder, len(payload)
    holder = bytearray(room.before + len(payload) + room.after)
    holder[room.before : room.before + len(payload)] = payload
    return holder, len(payload)


def _unpack(
    batch: Buffer, header: BatchHeader, bounds: DecodingBounds, room: Room
) -> memoryview | bytes:
    if header.record_count > bounds.records:
        raise UnpackedTooLarge(
            f"batch has {header.record_count} records; max.decompressed.message.bytes lets "
            f"{bounds.records} of them be decoded, one for every {BYTES_PER_RECORD} bytes"
        )
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    codec = header.compression
    if not codec:
        if len(packed) > bounds.unpacked_bytes:
            raise _too_large(bounds.unpacked_bytes)
        return packed
    unpacker = _UNPACKERS.get(codec)
    if unpacker is None:
        raise CorruptBatch(f"compression type {codec} is unknown")
    try:
        payload = unpacker(packed, bounds.unpacked_bytes, room)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise CorruptBatch(f"batch cannot be unpacked: {error}") from error
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(
            f"batch says {header.record_count} records; {len(payload)} bytes are too few for them"
        )
    return payload


def unpack_bytes(packed: bytes, codec: int, max_bytes: int) -> memoryview | bytes:
    """As `unpack`, of bytes that are no batch; `codec` 0 is none."""
    unpacker = _UNPACKERS.get(codec)
    if unpacker is None:
        if codec:
            raise CorruptBatch(f"compression type {codec} is unknown")
        return packed
    try:
        return unpacker(memoryview(packed), max_bytes, NO_ROOM)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise CorruptBatch(f"cannot be unpacked: {error}") from error


def check_header_counts(payload: Buffer, record_count: int, headers_max: int) -> None:
    """Raise `UnpackedTooLarge` if the records have too many headers to make objects of."""
    view = memoryview(payload)
    position = headers = 0
    for _ in range(record_count):
        length, position = _read_varint(view, position)
        end = position + length
        if not position < end <= len(view):
            raise CorruptBatch(f"record before byte {position} has a length that does not fit")
        _, at = _read_varint(view, position + 1)
        _, at = _read_varint(view, at)
        for _ in ("key", "value"):
            length, at = _read_varint(view, at)
            at += max(length, 0)
        count, _ = _read_varint(view, at)
        headers += count
        if headers > headers_max:
            raise UnpackedTooLarge(
                f"records have more than {headers_max} headers; max.decompressed.message.bytes "
                f"lets one be decoded for every {BYTES_PER_RECORD} bytes"
            )
        position = end


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """A zigzag varint and where it ends."""
    value = shift = 0
    while position < len(view) and shift < _VARINT_BITS_MAX:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise CorruptBatch(f"a number before byte {position} does not end")


def _unpack_gzip(packed: memoryview, max_bytes: int, _room: Room) -> bytes:
    parts: list[bytes] = []
    left_bytes = max_bytes
    rest: Buffer = packed
    # One member after the other, as gzip files may have them.
    while len(rest):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        # A byte more than there may be, which shows that there are more.
        part = member.decompress(rest, left_bytes + 1)
        left_bytes -= len(part)
        if left_bytes < 0:
            raise _too_large(max_bytes)
        if not member.eof:
            raise CorruptBatch("batch cannot be unpacked: its gzip data ends too early")
        parts.append(part)
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unpack_snappy(packed: memoryview, max_bytes: int, _room: Room) -> memoryview | bytes:
    # A block says first how long it will be, and its decoder takes it at its word.
    length = cramjam.snappy.decompress_raw_len
    if bytes(packed[: len(_XERIAL_MARK)]) != _XERIAL_MARK:
        if length(packed) > max_bytes:
            raise _too_large(max_bytes)
        return memoryview(cramjam.snappy.decompress_raw(packed))
    parts = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(packed):
        start = position + _BLOCK_SIZE_BYTES
        position = start + int.from_bytes(packed[position:start], "big")
        block = packed[start:position]
        if position > len(packed):
            raise CorruptBatch(f"batch cannot be unpacked: a snappy block of {position - start}")
        if len(parts) + length(block) > max_bytes:
            raise _too_large(max_bytes)
        parts += memoryview(cramjam.snappy.decompress_raw(block))
    return memoryview(parts)


def _unpack_in_steps(codec: Any) -> Unpacker:
    def unpacked(packed: memoryview, max_bytes: int, around: Room) -> memoryview:
        room_bytes = min(max_bytes, max(_FIRST_STEP_BYTES, _EXPECTED_RATIO * len(packed)))
        while True:
            whole = memoryview(bytearray(around.before + room_bytes + around.after))
            room = whole[around.before : around.before + room_bytes]
            try:
                return room[: codec.decompress_into(packed, room)]
            except cramjam.DecompressionError as error:
                if _FULL not in str(error):
                    raise
            if room_bytes >= max_bytes:
                raise _too_large(max_bytes)
            room_bytes = min(max_bytes, _STEP_FACTOR * room_bytes)

    return unpacked


def _too_large(max_bytes: int) -> UnpackedTooLarge:
    return UnpackedTooLarge(
        f"batch unpacks to more than the {max_bytes} bytes of max.decompressed.message.bytes"
    )


_UNPACKERS: Final[dict[int, Unpacker]] = {
    1: _unpack_gzip,
    2: _unpack_snappy,
    3: _unpack_in_steps(cramjam.lz4),
    4: _unpack_in_steps(cramjam.zstd),
}
# Those that unpack into memory of ours, which then has the room that was asked for.
_LEAVES_ROOM: Final = frozenset({3, 4})
