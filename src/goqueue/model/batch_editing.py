"""Batches that are changed on their way: without some records, compressed or stamped otherwise.

What is not to be changed stays as it is: offsets, times, headers, producer and sequence.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from crc32c import crc32c

from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    COMPRESSION_MASK,
    CRC_POSITION,
    HEADER_BYTES,
    HEADER_FIELDS,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
)
from goqueue.model.decoding_bounds import DEFAULT_BOUNDS, DecodingBounds
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import NewRecord, decode_records, encode_records
from goqueue.model.unpacking import unpack

# A batch counts its offsets with 31 bits.
OFFSET_DELTA_MAX: Final = 2**31 - 1

Codec = Callable[[bytes], bytes]
# By the number that a batch's attributes carry.
_CODECS: Final[dict[int, Codec]] = {
    1: gzip_encode,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}


def with_records(
    batch: bytes,
    header: BatchHeader,
    kept: Sequence[bool],
    max_timestamp_ms: int,
    bounds: DecodingBounds = DEFAULT_BOUNDS,
) -> bytes:
    """The batch with the records for which `kept` is true, their bytes unchanged.

    Base offset, last offset delta, producer and sequence stay, so that offsets and the producer's
    state come out the same. `max_timestamp_ms` is that of the kept records.
    """
    encode = _CODECS.get(header.compression, bytes)
    payload = unpack(batch, header, bounds)
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


def recompress(
    batch: Buffer, header: BatchHeader, compression: int, bounds: DecodingBounds = DEFAULT_BOUNDS
) -> bytearray:
    """The same records, producer and sequence under another compression."""
    records = [
        NewRecord(
            key=record.key,
            value=record.value,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
        for record in decode_records(batch, bounds)
    ]
    return encode_records(
        records,
        now_ms=header.base_timestamp_ms,
        compression=compression,
        is_transactional=header.is_transactional,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def stamp_append_time(buffer: bytearray, position: int, header: BatchHeader, now_ms: int) -> None:
    """Mark the batch as stamped by the broker (`message.timestamp.type=LogAppendTime`)."""
    struct.pack_into(
        ">hiqq",
        buffer,
        position + CHECKSUMMED_FROM,
        header.attributes | TIMESTAMP_TYPE_BIT,
        header.last_offset_delta,
        header.base_timestamp_ms,
        now_ms,
    )
    _seal(buffer, position, position + header.size_bytes)


def covering_all(base_offset: int, next_offset: int, leader_epoch: int) -> Iterator[bytes]:
    """As `covering`, of a stretch that may be longer than one batch counts."""
    while base_offset < next_offset:
        until = min(next_offset, base_offset + OFFSET_DELTA_MAX)
        yield covering(base_offset, until, leader_epoch)
        base_offset = until


def _sealed(header: BatchHeader, payload: bytes) -> bytes:
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    batch = bytearray(HEADER_FIELDS.pack(*header._replace(length=length)) + payload)
    _seal(batch, 0, len(batch))
    return bytes(batch)


def _seal(buffer: bytearray, position: int, end: int) -> None:
    """Give the batch in this part of a buffer its checksum."""
    computed = crc32c(memoryview(buffer)[position + CHECKSUMMED_FROM : end])
    struct.pack_into(">I", buffer, position + CRC_POSITION, computed)


def _record_spans(payload: Buffer, count: int) -> Iterator[tuple[int, int]]:
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
