"""Bytes of a metadata file: a header, then frames with a checksum each.

All integers big-endian; checksums are CRC-32C.

    header  magic 8 | format version 4 | generation 8 | salt 4 | checksum of the above 4
    frame   marker 4 | payload length 4 | sequence 8 | checksum 4 | payload

A frame's checksum covers length, sequence and payload and starts from the file's random salt, so
that bytes a user stored can never pass for a frame. The marker is not valid UTF-8, so that
looking for the next frame behind a damaged one does not stop at stored text.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

FORMAT_VERSION: Final = 1
_HEADER: Final = struct.Struct(">8sIQI")
_CHECKSUM: Final = struct.Struct(">I")
_FRAME: Final = struct.Struct(">4sIQI")
_CHECKED: Final = struct.Struct(">IQ")
_MARKER: Final = b"\xff\xfegq"

HEADER_SIZE_BYTES: Final = _HEADER.size + _CHECKSUM.size
FRAME_OVERHEAD_BYTES: Final = _FRAME.size


class Header(NamedTuple):
    magic: bytes
    version: int
    generation: int
    salt: int


class Frames(NamedTuple):
    """`end` is where the last whole frame ends. `damage_at` is None where nothing follows it

    or only a torn tail does; else it is where a frame is broken although later ones are whole.
    """

    payloads: list[bytes]
    end: int
    damage_at: int | None


def encode_header(magic: bytes, generation: int, salt: int) -> bytes:
    fields = _HEADER.pack(magic, FORMAT_VERSION, generation, salt)
    return fields + _CHECKSUM.pack(crc32c(fields))


def decode_header(data: bytes) -> Header | None:
    """None where the header is short or damaged."""
    if len(data) < HEADER_SIZE_BYTES:
        return None
    if crc32c(data[: _HEADER.size]) != _CHECKSUM.unpack_from(data, _HEADER.size)[0]:
        return None
    return Header(*_HEADER.unpack_from(data))


def encode_frame(payload: bytes, *, sequence: int, salt: int) -> bytes:
    checksum = _frame_checksum(payload, len(payload), sequence, salt)
    return _FRAME.pack(_MARKER, len(payload), sequence, checksum) + payload


def decode_frames(data: bytes, *, salt: int) -> Frames:
    """All frames after the header, up to the first that is not whole."""
    payloads: list[bytes] = []
    position = HEADER_SIZE_BYTES
    while (payload := _frame_at(data, position, len(payloads), salt)) is not None:
        payloads.append(payload)
        position += _FRAME.size + len(payload)
    # The writer waits for the disk after each frame, so only the last can be torn: a whole frame
    # behind a broken one means that bytes which were safe have changed since.
    later = data.find(_MARKER, position + 1)
    while later != -1:
        if _frame_at(data, later, None, salt) is not None:
            return Frames(payloads, position, position)
        later = data.find(_MARKER, later + 1)
    return Frames(payloads, position, None)


def _frame_at(data: bytes, position: int, sequence: int | None, salt: int) -> bytes | None:
    start = position + _FRAME.size
    if start > len(data):
        return None
    marker, length, found_sequence, checksum = _FRAME.unpack_from(data, position)
    if marker != _MARKER or start + length > len(data):
        return None
    if sequence is not None and found_sequence != sequence:
        return None
    payload = data[start : start + length]
    if _frame_checksum(payload, length, found_sequence, salt) != checksum:
        return None
    return payload


def _frame_checksum(payload: bytes, length: int, sequence: int, salt: int) -> int:
    return crc32c(payload, crc32c(_CHECKED.pack(length, sequence), salt))
