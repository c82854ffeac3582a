"""The consumer's messages inside the classic protocol: subscription and assignment.

The classic protocol carries opaque bytes between members. The coordinator looks inside only to know
which topics a group reads, and to let members of both protocols share a group (KIP-848).
Every version starts with the fields of version 0; later versions append.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

PROTOCOL_TYPE: Final = "consumer"

# Topics of one member that are read: as many as a request may name (`request.max.elements`). A
# member may send megabytes, and a million names took seconds at each rebalance.
NAMES_MAX: Final = 20_000
INT16_MAX: Final = 2**15 - 1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class MalformedProtocol(ValueError):
    """The bytes are not what the consumer protocol says."""


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None
    # Of which generation `owned` is; -1 where the member does not say.
    generation: int = -1


class EmbeddedAssignment(NamedTuple):
    partitions: Mapping[str, tuple[int, ...]]
    user_data: bytes | None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def position(self) -> int:
        return self._at

    def int16(self) -> int:
        return int(_INT16.unpack(self.raw(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.raw(4))[0])

    def raw(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise MalformedProtocol(f"{size} bytes wanted at {self._at} of {len(self._data)}")
        chunk = self._data[self._at : end]
        self._at = end
        return chunk

    def rest(self) -> bytes:
        return self._data[self._at :]

    def nullable_string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        try:
            return self.raw(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedProtocol("a string is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedProtocol("a string is null")
        return text

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self.raw(size)

    def array_size(self, element_bytes: int) -> int:
        """Refuse a size that the remaining bytes cannot hold, before looping over it."""
        size = self.int32()
        if size * element_bytes > len(self._data) - self._at:
            raise MalformedProtocol(f"an array of {size} does not fit the remaining bytes")
        return max(size, 0)

    def count_of_names(self, element_bytes: int) -> int:
        count = self.array_size(element_bytes)
        if count > NAMES_MAX:
            raise MalformedProtocol(f"{count} topics are more than {NAMES_MAX}")
        return count

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() for _ in range(self.count_of_names(2)))

    def partitions(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for _ in range(self.count_of_names(6)):
            topic = self.string()
            count = self.array_size(4)
            found[topic] = struct.unpack(f">{count}i", self.raw(4 * count))
        return found


def read_subscription(data: bytes) -> Subscription:
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise MalformedProtocol(f"version {version}")
    topics = reader.strings()
    reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else {}
    generation = reader.int32() if version >= 2 else -1
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, owned, rack_id, generation)


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Read an assignment; no bytes at all mean an empty one, as leaders may leave members out."""
    if not data:
        return EmbeddedAssignment({}, None)
    reader = _Reader(data)
    if reader.int16() < 0:
        raise MalformedProtocol("negative version")
    return EmbeddedAssignment(reader.partitions(), reader.nullable_bytes())


def without_partitions(data: bytes, is_withheld: Callable[[str, int], bool]) -> bytes:
    """An assignment without some partitions, and else as it is. One that cannot be read stays."""
    if not data:
        return data
    reader = _Reader(data)
    try:
        version = reader.int16()
        partitions = reader.partitions()
    except MalformedProtocol:
        return data
    kept = {
        topic: [number for number in numbers if not is_withheld(topic, number)]
        for topic, numbers in partitions.items()
    }
    if all(len(kept[topic]) == len(numbers) for topic, numbers in partitions.items()):
        return data
    parts = _partitions({topic: numbers for topic, numbers in kept.items() if numbers})
    return b"".join((_INT16.pack(version), *parts, reader.rest()))


def rename_subscribed(data: bytes, rename: Callable[[str], str]) -> bytes:
    """A subscription with its topics renamed, and else as it is. What cannot be read stays."""
    reader = _Reader(data)
    try:
        version = reader.raw(2)
        count = reader.count_of_names(2)
        parts = [data[: reader.position], *(_renamed(reader, rename) for _ in range(count))]
        if _INT16.unpack(version)[0] >= 1:
            start = reader.position
            reader.nullable_bytes()
            parts += (data[start : reader.position], *_renamed_partitions(data, reader, rename))
    except (MalformedProtocol, struct.error):
        return data
    return b"".join((*parts, reader.rest()))


def rename_assigned(data: bytes, rename: Callable[[str], str]) -> bytes:
    """As `rename_subscribed`, of an assignment."""
    reader = _Reader(data)
    try:
        parts = [reader.raw(2), *_renamed_partitions(data, reader, rename)]
    except (MalformedProtocol, struct.error):
        return data
    return b"".join((*parts, reader.rest()))


def _renamed(reader: _Reader, rename: Callable[[str], str]) -> bytes:
    """One that is too long then is no topic's, and must not keep the others from being renamed."""
    name = reader.string()
    encoded = rename(name).encode()
    return _string(name) if len(encoded) > INT16_MAX else _INT16.pack(len(encoded)) + encoded


def _renamed_partitions(
    data: bytes, reader: _Reader, rename: Callable[[str], str]
) -> Iterator[bytes]:
    """In the order in which they stand there."""
    start = reader.position
    count = reader.count_of_names(6)
    yield data[start : reader.position]
    for _ in range(count):
        yield _renamed(reader, rename)
        start = reader.position
        reader.raw(4 * reader.array_size(4))
        yield data[start : reader.position]


def write_assignment(version: int, partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = _partitions({topic: sorted(numbers) for topic, numbers in partitions.items()})
    return b"".join((_INT16.pack(version), *parts, _INT32.pack(-1)))


def write_subscription(
    version: int,
    topics: Sequence[str],
    owned: Mapping[str, Sequence[int]] | None = None,
    *,
    generation: int = -1,
    rack_id: str | None = None,
) -> bytes:
    parts = [_INT16.pack(version), _INT32.pack(len(topics)), *map(_string, topics)]
    parts.append(_INT32.pack(-1))
    if version >= 1:
        parts += _partitions(owned or {})
    if version >= 2:
        parts.append(_INT32.pack(generation))
    if version >= 3:
        parts.append(_INT16.pack(-1) if rack_id is None else _string(rack_id))
    return b"".join(parts)


def _partitions(partitions: Mapping[str, Sequence[int]]) -> Iterator[bytes]:
    yield _INT32.pack(len(partitions))
    for topic, numbers in sorted(partitions.items()):
        yield from (_string(topic), _INT32.pack(len(numbers)), *map(_INT32.pack, numbers))


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
