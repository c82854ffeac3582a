"""Lengths and tagged fields of Kafka's flexible versions (KIP-482), read in place."""

from collections.abc import Iterator
from typing import Final

# A compact length has five bytes at most.
_MAX_VARINT_SHIFT: Final = 28


def read_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """The number, and where the next field begins."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a length of more than five bytes")


def read_tags(frame: memoryview, position: int) -> Iterator[tuple[int, int, int]]:
    """Tag, where its bytes start, and where the next begins; first one that stands for none."""
    count, position = read_varint(frame, position)
    yield -1, position, position
    for _ in range(count):
        tag, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        yield tag, position, position + size
        position += size


def skip_tags(frame: memoryview, position: int) -> int:
    for _, _, end in read_tags(frame, position):
        position = end
    return position
