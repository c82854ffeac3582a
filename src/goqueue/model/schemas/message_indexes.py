"""Which message of a Protobuf schema a payload holds: its indexes stand before the message.

How many there are, then the place of the message in the file, of the nested one in that, and so on,
all as zigzag varints; a single zero byte is short for the first message.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

from typing import Final

# protoc allows 32 nested messages; a longer list of indexes points nowhere.
_MAX_INDEXES: Final = 32
# Five bytes hold the 32 bits of an index.
_MAX_VARINT_BYTES: Final = 5


def read_message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """(indexes, where the message begins); `ValueError` if there are none."""
    if not payload:
        raise ValueError("the payload is empty: message indexes are expected first")
    if payload[0] == 0:
        return (0,), 1
    count, at = _read_varint(payload, 0)
    if not 0 < count <= _MAX_INDEXES:
        raise ValueError(f"{count} message indexes: between 1 and {_MAX_INDEXES} are possible")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(payload, at)
        if index < 0:
            raise ValueError(f"message index {index} is below 0")
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(payload[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + shift + 1
    raise ValueError("the message indexes at the payload's start are cut off or too long")
