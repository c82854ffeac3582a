"""Control batches: the markers that end a transaction in each of its partitions.

A marker is a batch of one record whose key is (version, type) and whose value is
(version, coordinator epoch): https://kafka.apache.org/documentation/#controlbatch
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    CONTROL_BIT,
    CRC_POSITION,
    HEADER_BYTES,
    HEADER_FIELDS,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    Buffer,
)
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import decode_records


class MarkerType(IntEnum):
    """Numbered as Kafka's control record types."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    type: MarkerType
    coordinator_epoch: int


_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0

# Record length, attributes, timestamp delta, offset delta, key length, key, value length, value,
# header count. Lengths are zigzag varints, so each stands doubled in its one byte.
_RECORD: Final = struct.Struct(">BBBBBhhBhiB")
_RECORD_LENGTH_ZIGZAG: Final = (_RECORD.size - 1) * 2

MARKER_BATCH_BYTES: Final = HEADER_BYTES + _RECORD.size


def encode_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, now_ms: int
) -> bytearray:
    """Return the control batch for `marker`, with base offset 0 and no leader epoch."""
    batch = bytearray(MARKER_BATCH_BYTES)
    HEADER_FIELDS.pack_into(
        batch,
        0,
        0,
        MARKER_BATCH_BYTES - LENGTH_PREFIX_BYTES,
        -1,
        MAGIC_V2,
        0,
        TRANSACTIONAL_BIT | CONTROL_BIT,
        0,
        now_ms,
        now_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    _RECORD.pack_into(
        batch,
        HEADER_BYTES,
        _RECORD_LENGTH_ZIGZAG,
        0,
        0,
        0,
        _KEY.size * 2,
        _VERSION,
        marker.type,
        _VALUE.size * 2,
        _VERSION,
        marker.coordinator_epoch,
        0,
    )
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKSUMMED_FROM:]))
    return batch


def decode_marker(batch: Buffer) -> Marker | None:
    """Read the marker in a whole control batch; None where compaction has emptied the batch."""
    records = decode_records(batch, ON_LOOP_BOUNDS)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    # Later versions may append fields, so only a lower bound holds.
    if key is None or len(key) < _KEY.size or value is None or len(value) < _VALUE.size:
        raise CorruptBatch(f"control record at offset {records[0].offset} is not an end marker")
    _, kind = _KEY.unpack_from(key)
    _, coordinator_epoch = _VALUE.unpack_from(value)
    try:
        return Marker(MarkerType(kind), coordinator_epoch)
    except ValueError as error:
        raise CorruptBatch(
            f"control record at offset {records[0].offset} has type {kind}; "
            "a partition holds only commit (1) and abort (0) markers"
        ) from error
