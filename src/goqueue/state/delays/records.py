"""What stands in a log of delayed messages.

A delayed message is a record with its own key and value, its headers, and before them one more
header that says where and when it goes. All other records have no header and no key; their value
is one of the structs below.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.records import Header, NewRecord

_ADDRESS: Final = "@"
# number, due, target, records of its group that follow
_ADDRESS_FIELDS: Final = struct.Struct(">qq20sI")
_TARGET_FIELDS: Final = struct.Struct(">16si")
# Recovery sees the same few targets over and over; making a UUID takes longer than all the rest.
_TARGETS_CACHED: Final = 4_096

# The address, length fields, deltas and a share of the batch's header, generously.
RECORD_OVERHEAD_BYTES: Final = 80
HEADER_OVERHEAD_BYTES: Final = 6


class TargetKey(NamedTuple):
    """A partition that messages wait for. The id tells a topic from a later one of its name."""

    topic_id: UUID
    partition: int


class Scheduled(NamedTuple):
    """The address of a delayed message.

    Messages that came together form a group: all of them were stored, or none counts.
    `group_left` is how many are still to come.
    """

    number: int
    due_ms: int
    target: TargetKey
    group_left: int


# Of a batch that was split before this was noted.
NO_SPLIT: Final = -1
ANY_EPOCH: Final = -1


class _Note(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class ProducerTaken(_Note, frozen=True, tag=1):
    """The producer id under which messages are appended to their targets from now on."""

    producer_id: int


class Originated(_Note, frozen=True, tag=2):
    """The group that follows came with this batch of an idempotent producer."""

    topic_id: UUID
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    # The time by which records of the batch were told to be delayed; -1 if it was not noted.
    split_at_ms: int = NO_SPLIT


class Claimed(_Note, frozen=True, tag=3):
    """These messages, in this order, go to the target as one batch of this producer."""

    topic_id: UUID
    partition: int
    producer_id: int
    base_sequence: int
    packed_numbers: bytes

    @property
    def numbers(self) -> "array[int]":
        return array("q", self.packed_numbers)


class Delivered(_Note, frozen=True, tag=4):
    """The target keeps everything before this sequence."""

    topic_id: UUID
    partition: int
    next_sequence: int


class Cancelled(_Note, frozen=True, tag=5):
    topic_id: UUID
    partition: int
    number: int
    due_ms: int
    size_bytes: int


class Dropped(_Note, frozen=True, tag=6):
    """The topic is gone, and with it what waited for it."""

    topic_id: UUID


class Abandoned(_Note, frozen=True, tag=7):
    """A crash cut the last group short: it was never acknowledged and does not count."""


class Restarted(_Note, frozen=True, tag=8):
    """The target lost batches that it had kept: what is claimed goes under another producer."""

    topic_id: UUID
    partition: int
    producer_id: int


class Held(_Note, frozen=True, tag=9):
    """Messages of a batch of a transactional producer: for its transaction to decide about.

    One record for all of them, so that they are stored together or not at all.
    """

    topic_id: UUID
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    packed_messages: bytes
    split_at_ms: int = NO_SPLIT

    def messages(self) -> list[tuple[NewRecord, int]]:
        """With their due times, without timestamps."""
        return [
            (NewRecord(key=key, value=value, headers=tuple(headers)), due_ms)
            for due_ms, key, value, headers in _messages_decoder.decode(self.packed_messages)
        ]


class HeldEnded(_Note, frozen=True, tag=10):
    """The transaction of what was held has ended; what it committed is scheduled before this."""

    topic_id: UUID
    partition: int
    producer_id: int
    base_sequence: int
    # Earlier releases did not say.
    producer_epoch: int = ANY_EPOCH


class Remembered(_Note, frozen=True, tag=11):
    """A batch of an idempotent producer that an earlier release took in, elsewhere."""

    topic_id: UUID
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class Numbered(_Note, frozen=True, tag=12):
    """Smaller numbers were given to messages, whether the log still has those or not."""

    next_number: int


Note = (
    ProducerTaken
    | Originated
    | Claimed
    | Delivered
    | Cancelled
    | Dropped
    | Abandoned
    | Restarted
    | Held
    | HeldEnded
    | Remembered
    | Numbered
)

_Message = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
_messages_decoder: Final[msgspec.msgpack.Decoder[list[_Message]]] = msgspec.msgpack.Decoder(
    list[_Message]
)

_decoder: Final[msgspec.msgpack.Decoder[Note]] = msgspec.msgpack.Decoder(Note)
_encode: Final = msgspec.msgpack.Encoder().encode


def note_record(note: Note) -> NewRecord:
    return NewRecord(value=_encode(note))


def pack_messages(messages: Iterable[tuple[NewRecord, int]]) -> bytes:
    return _encode([(due_ms, m.key, m.value, list(m.headers)) for m, due_ms in messages])


def parse_note(value: bytes) -> Note:
    return _decoder.decode(value)


def scheduled_record(address: Scheduled, message: NewRecord) -> NewRecord:
    packed = _ADDRESS_FIELDS.pack(
        address.number,
        address.due_ms,
        _TARGET_FIELDS.pack(address.target.topic_id.bytes, address.target.partition),
        address.group_left,
    )
    return NewRecord(
        key=message.key,
        value=message.value,
        headers=((_ADDRESS, packed), *message.headers),
        timestamp_ms=message.timestamp_ms,
    )


def parse_address(headers: Sequence[Header]) -> Scheduled | None:
    """The address of a delayed message; None for other records."""
    if not headers:
        return None
    name, packed = headers[0]
    if name != _ADDRESS or packed is None:
        raise ValueError(f"a record of delayed messages begins with the unknown header {name!r}")
    number, due_ms, target, group_left = _ADDRESS_FIELDS.unpack(packed)
    return Scheduled(number, due_ms, _target_key(target), group_left)


@lru_cache(_TARGETS_CACHED)
def _target_key(packed: bytes) -> TargetKey:
    topic_id, partition = _TARGET_FIELDS.unpack(packed)
    return TargetKey(UUID(bytes=topic_id), partition)


def stored_size_bytes(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> int:
    """About what a message takes while it waits, and never less than in its target."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, text in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(text or b"")
    return size
