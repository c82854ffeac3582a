"""Producer state as bytes: a format version, a CRC-32C and MessagePack."""

import struct
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from goqueue.state.producers.producer import SEQUENCE_WINDOW_BATCHES, Producer, StoredBatch

_PREFIX: Final = struct.Struct(">HI")
_FORMAT_VERSION: Final = 1


class SnapshotCorrupt(Exception):
    """The snapshot cannot be used; fall back on an older one or on scanning the log."""


class _StoredProducer(NamedTuple):
    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    last_used_ms: int
    transaction_first_offset: int
    known_sequences: int
    batches: list[StoredBatch]


class _Snapshot(NamedTuple):
    end_offset: int
    producers: list[_StoredProducer]


_DECODER: Final = msgspec.msgpack.Decoder(_Snapshot)


def encode_snapshot(end_offset: int, producers: Iterable[tuple[int, Producer]]) -> bytes:
    body = msgspec.msgpack.encode(
        _Snapshot(
            end_offset,
            [
                _StoredProducer(
                    producer_id,
                    producer.epoch,
                    producer.coordinator_epoch,
                    producer.last_sequence,
                    producer.last_timestamp_ms,
                    producer.last_used_ms,
                    producer.transaction_first_offset,
                    producer.known_sequences,
                    list(producer.batches),
                )
                for producer_id, producer in producers
            ],
        )
    )
    return _PREFIX.pack(_FORMAT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> tuple[int, dict[int, Producer]]:
    """Return (end offset, producers by id), or raise `SnapshotCorrupt`."""
    if len(data) < _PREFIX.size:
        raise SnapshotCorrupt(f"producer snapshot has {len(data)} bytes, at least {_PREFIX.size}")
    version, stored_crc = _PREFIX.unpack_from(data)
    if version != _FORMAT_VERSION:
        raise SnapshotCorrupt(f"producer snapshot has format {version}, not {_FORMAT_VERSION}")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != stored_crc:
        raise SnapshotCorrupt("producer snapshot does not match its checksum")
    try:
        snapshot = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise SnapshotCorrupt(f"producer snapshot cannot be decoded: {error}") from error
    return snapshot.end_offset, {
        stored.producer_id: _restore(stored) for stored in snapshot.producers
    }


def _restore(stored: _StoredProducer) -> Producer:
    producer = Producer(stored.epoch)
    producer.coordinator_epoch = stored.coordinator_epoch
    producer.last_sequence = stored.last_sequence
    producer.last_timestamp_ms = stored.last_timestamp_ms
    producer.last_used_ms = stored.last_used_ms
    producer.transaction_first_offset = stored.transaction_first_offset
    producer.known_sequences = stored.known_sequences
    producer.batches = deque(stored.batches, maxlen=SEQUENCE_WINDOW_BATCHES)
    return producer
