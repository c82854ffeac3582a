"""Batches that have lost records: what is left keeps its offset, time, headers and compression."""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from aiokafka.codec import (
    gzip_decode,
    gzip_encode,
    lz4_decode,
    lz4_encode,
    snappy_decode,
    snappy_encode,
    zstd_decode,
    zstd_encode,
)
from crc32c import crc32c

from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    COMPRESSION_MASK,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from goqueue.model.errors import CorruptBatch

# A batch counts its offsets with 31 bits.
OFFSET_DELTA_MAX: Final = 2**31 - 1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")

Codec = Callable[[bytes], bytes]
# By the number that a batch's attributes carry.
_CODECS: Final[dict[int, tuple[Codec, Codec]]] = {
    1: (gzip_decode, gzip_encode),
    2: (snappy_decode, snappy_encode),
    3: (lz4_decode, lz4_encode),
    4: (zstd_decode, zstd_encode),
}


def with_records(
    batch: bytes, header: BatchHeader, kept: Sequence[bool], max_timestamp_ms: int
) -> bytes:
    """The batch with the records for which `kept` is true, their bytes unchanged.

    Base offset, last offset delta, producer and sequence stay, so that offsets and the producer's
    state come out the same. `max_timestamp_ms` is that of the kept records.
    """
    decode, encode = _CODECS.get(header.compression, (bytes, bytes))
    payload = decode(batch[HEADER_BYTES:])
    spans = zip(_record_spans(payload, header.record_count), kept, strict=True)
    records = b"".join([payload[start:end] for (start, end), is_kept in spans if is_kept])
    return _sealed(
        header._replace(
            record_count=sum(kept),
            # Stamped by the broker, this is the time of every record.
            max_timestamp_ms=(
                header.max_timestamp_ms if header.uses_append_time else max_timestamp_ms
            ),
        ),
        bytes(encode(records)),
    )


def without_records(header: BatchHeader) -> bytes:
    """What is left of a producer's batch: its sequence.

    It is part of no transaction any more, so that none seems open when the log is replayed.
    """
    attributes = header.attributes & ~(COMPRESSION_MASK | TRANSACTIONAL_BIT)
    return _sealed(header._replace(attributes=attributes, record_count=0), b"")


def covering(base_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """A batch without records in the place of those that are gone.

    So offsets follow on from batch to batch, also where a consumer finds nothing: a flipped bit in
    a base offset is noticed in a compacted segment as in any other.
    """
    return _sealed(
        BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=0,
            last_offset_delta=next_offset - base_offset - 1,
            base_timestamp_ms=NO_TIMESTAMP,
            max_timestamp_ms=NO_TIMESTAMP,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=NO_SEQUENCE,
            record_count=0,
        ),
        b"",
    )


def _sealed(header: BatchHeader, payload: bytes) -> bytes:
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    batch = bytearray(_HEADER.pack(*header._replace(length=length)) + payload)
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKSUMMED_FROM:]))
    return bytes(batch)


def _record_spans(payload: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Where each record begins and ends: it starts with its length, a zigzag varint."""
    position = 0
    for _ in range(count):
        start = position
        length = shift = 0
        while True:
            byte = payload[position]
            position += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        position += length >> 1
        if length & 1 or position > len(payload):
            raise CorruptBatch(f"record at byte {start} has a length that does not fit")
        yield start, position
