"""Answers in Kafka's flexible versions (KIP-482), read in place: heads, lengths, tagged fields."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from goqueue.client.errors import BrokerUnreachable

_CORRELATION_ID: Final = struct.Struct(">i")

# A compact length has five bytes at most.
_MAX_VARINT_SHIFT: Final = 28


@contextmanager
def reading_fetch_answer(address: str) -> Iterator[None]:
    """`BrokerUnreachable` for bytes that are no answer to a fetch."""
    try:
        yield
    except (struct.error, IndexError, ValueError) as error:
        raise BrokerUnreachable(
            f"what listens at {address} answers a fetch in another language than Kafka's"
        ) from error


def after_head(frame: memoryview, correlation_id: int) -> int:
    """Where the answer itself begins; `ValueError` if it is that to another request."""
    (answered,) = _CORRELATION_ID.unpack_from(frame, 0)
    if answered != correlation_id:
        raise ValueError("answered out of order")
    return skip_tags(frame, _CORRELATION_ID.size)


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
