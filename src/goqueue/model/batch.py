"""Kafka's record batch, format version 2, as a view over bytes.

A batch stays opaque: its 61-byte header is read, its checksum verified, and its base offset and
leader epoch (which stand before the checksummed region) are patched in place.
Layout: https://kafka.apache.org/documentation/#recordbatch
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from goqueue.model.errors import CorruptBatch, InvalidRecord

HEADER_BYTES: Final = 61
# The length field counts what follows it: everything but base offset (8) and itself (4).
LENGTH_PREFIX_BYTES: Final = 12
MAGIC_V2: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
RECORD_COUNT_PLACE: Final = slice(57, 61)
CHECKSUMMED_FROM: Final = 21

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

COMPRESSION_NAMES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
# By the same numbers: bytes that one packed byte can stand for, by the formats. Deflate repeats 258
# bytes with two bits, snappy 64 bytes with three bytes, LZ4 255 with one more byte of length, and a
# run of zstd is a block of 128 KB in four.
_BYTES_PER_PACKED_BYTE: Final = (1, 1032, 22, 255, 32_768)
# A record's length, attributes, two deltas, the lengths of key and value, and its header count.
RECORD_BYTES_MIN: Final = 7

# The fields of `BatchHeader`, in their order.
HEADER_FIELDS: Final = struct.Struct(">qiibIhiqqqhii")

_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")

assert HEADER_FIELDS.size == HEADER_BYTES

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def uses_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


# What `_make` does, without a call in Python: every produced and every fetched batch passes here.
_new_header: Final[Callable[[tuple[Any, ...]], BatchHeader]] = partial(tuple.__new__, BatchHeader)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; the caller knows that 61 bytes are there."""
    return _new_header(HEADER_FIELDS.unpack_from(buffer, position))


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the whole, undamaged batch at `position`, else raise `CorruptBatch`."""
    available = len(buffer) - position
    if available < HEADER_BYTES:
        raise CorruptBatch(f"{available} bytes are too few for a batch header of {HEADER_BYTES}")
    header: BatchHeader = _new_header(HEADER_FIELDS.unpack_from(buffer, position))
    size = header.length + LENGTH_PREFIX_BYTES
    if header.magic != MAGIC_V2:
        raise CorruptBatch(f"batch has format version {header.magic}; only {MAGIC_V2} is stored")
    if size < HEADER_BYTES or size > available:
        raise CorruptBatch(f"batch length {header.length} does not fit the {available} bytes given")
    computed = crc32c(memoryview(buffer)[position + CHECKSUMMED_FROM : position + size])
    if computed != header.crc:
        raise CorruptBatch(f"batch checksum is {header.crc:#010x}, computed {computed:#010x}")
    return header


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch; raise `CorruptBatch` at the first bad one."""
    position = 0
    end = len(buffer)
    while position < end:
        header = check_batch(buffer, position)
        yield position, header
        position += header.length + LENGTH_PREFIX_BYTES


def check_produced(buffer: Buffer, position: int = 0) -> BatchHeader:
    """`check_batch`, and that the header is one a producer may send (else `InvalidRecord`)."""
    if len(buffer) - position > MAGIC_POSITION:
        magic = buffer[position + MAGIC_POSITION]
        if magic < MAGIC_V2:
            raise InvalidRecord(
                f"message format {magic} is not supported; send record batches of format 2"
            )
    header = check_batch(buffer, position)
    attributes = header.attributes
    has_producer = header.producer_id != NO_PRODUCER_ID
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"batch says {header.record_count} records and last offset delta "
            f"{header.last_offset_delta}; the delta must be the count less one, and the count ≥ 1"
        )
    if attributes & CONTROL_BIT:
        raise InvalidRecord("control batches are written by the broker only")
    if attributes & COMPRESSION_MASK >= len(COMPRESSION_NAMES):
        raise InvalidRecord(f"compression type {header.compression} is unknown")
    _check_count(header)
    if has_producer and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence}; both must be 0 or more"
        )
    if not has_producer and attributes & TRANSACTIONAL_BIT:
        raise InvalidRecord("a transactional batch must carry a producer id")
    return header


def _check_count(header: BatchHeader) -> None:
    """Refuse a count that the bytes cannot hold: offsets are given by it, unseen."""
    payload_bytes = header.length + LENGTH_PREFIX_BYTES - HEADER_BYTES
    held_bytes = payload_bytes * _BYTES_PER_PACKED_BYTE[header.attributes & COMPRESSION_MASK]
    if header.record_count * RECORD_BYTES_MIN > held_bytes:
        raise InvalidRecord(
            f"batch says {header.record_count} records; its {payload_bytes} bytes "
            f"({COMPRESSION_NAMES[header.compression]}) hold {held_bytes // RECORD_BYTES_MIN} "
            "at most"
        )


def assign(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its place in the log; its checksum stays valid."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LENGTH_PREFIX_BYTES, leader_epoch)


def with_place(header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """The header as it stands after `assign`."""
    return _new_header((base_offset, header.length, leader_epoch, *header[3:]))


def is_transactional(buffer: Buffer) -> bool:
    """Whether the first batch says so; no other check is made."""
    attributes_low_byte = CHECKSUMMED_FROM + 1
    return len(buffer) > attributes_low_byte and bool(
        buffer[attributes_low_byte] & TRANSACTIONAL_BIT
    )
