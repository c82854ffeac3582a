"""What the Produce operation asks of the records of a partition, before the broker sees them.

Since version 3 it is exactly one batch of format 2; Kafka refuses older formats with INVALID_RECORD
and a batch whose bytes make no sense with CORRUPT_MESSAGE.
"""

import struct
from typing import Any, Final

from goqueue.model.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    Buffer,
)
from goqueue.model.errors import CorruptBatch, InvalidRecord, UnsupportedCompression

_ZSTD: Final = 4
# KIP-110: older clients could not read what a newer one compressed with zstd.
FIRST_VERSION_WITH_ZSTD: Final = 7
# The smallest record of the oldest format; a length below it cannot be meant.
_OLDEST_FORMAT_MIN_BYTES: Final = 14
_LENGTH_POSITION: Final = 8
_ATTRIBUTES_POSITION: Final = 21
_LENGTH: Final = struct.Struct(">i")


def check_one_batch(records: Any, version: int) -> Buffer:
    """Return `records`, typed by kio for a reader of its own, as the bytes they are."""
    if records is None or len(records) <= MAGIC_POSITION:
        raise InvalidRecord("a produce request must have one record batch per partition")
    (length,) = _LENGTH.unpack_from(records, _LENGTH_POSITION)
    magic = records[MAGIC_POSITION]
    if length < _OLDEST_FORMAT_MIN_BYTES or magic > MAGIC_V2:
        raise CorruptBatch(f"batch length {length} and format {magic} make no sense")
    size = length + LENGTH_PREFIX_BYTES
    if size > len(records):
        raise InvalidRecord(f"batch length {length} goes past the {len(records)} bytes sent")
    if magic < MAGIC_V2:
        raise InvalidRecord(f"message format {magic} is not supported; send format {MAGIC_V2}")
    if size < len(records):
        raise InvalidRecord("a produce request must have exactly one record batch per partition")
    if size < HEADER_BYTES:
        raise CorruptBatch(f"batch of {size} bytes; its header alone has {HEADER_BYTES}")
    compression = records[_ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    if compression == _ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompression(
            f"zstd needs Produce version {FIRST_VERSION_WITH_ZSTD}; this is {version}"
        )
    batch: Buffer = records
    return batch
