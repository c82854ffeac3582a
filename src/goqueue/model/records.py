"""Single records in and out of batches: for the features that must look inside one.

Encoding and decoding run in aiokafka's compiled code; nothing here is on the produce or fetch path
of Kafka clients.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    COMPRESSION_MASK,
    COMPRESSION_NAMES,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
    read_header,
)
from goqueue.model.decoding_bounds import DEFAULT_BOUNDS, DecodingBounds
from goqueue.model.errors import CorruptBatch
from goqueue.model.unpacking import HEADER_BYTES_MIN, Room, check_header_counts, unpack_in_room

Header = tuple[str, bytes | None]

# The low byte of the attributes.
_CODEC_POSITION: Final = CHECKSUMMED_FROM + 1
# The compiled decoder reads numbers before it looks whether they end within the batch: two of ten
# bytes at most.
_MARGIN_BYTES: Final = 32
_ROOM: Final = Room(HEADER_BYTES, _MARGIN_BYTES)
# A header of two bytes becomes an object of eighty. Below this size their number does not matter.
_HEADERS_COUNTED_FROM_BYTES: Final = 2 * 1024 * 1024

COMPRESSION_CODES: Final = {name: code for code, name in enumerate(COMPRESSION_NAMES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record on its way in. Without a timestamp it takes the time of its append."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class StoredRecord(Protocol):
    """What aiokafka's compiled records look like; -1 as a time is None."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def open_records(batch: Buffer, bounds: DecodingBounds = DEFAULT_BOUNDS) -> Iterator[StoredRecord]:
    """Decode one whole batch whose checksum was verified, record by record.

    The only way into a batch. Raises `UnpackedTooLarge` beyond the bounds, at the first record, and
    `CorruptBatch` for what cannot be decoded.
    """
    records = _opened(batch, bounds)
    try:
        yield from records
    except Exception as error:
        raise _undecodable(error) from error


def _opened(batch: Buffer, bounds: DecodingBounds) -> Iterator[StoredRecord]:
    """Of compiled code, which raises whatever comes to it."""
    header = read_header(batch)
    plain, size_bytes = unpack_in_room(batch, header, bounds, _ROOM)
    end = HEADER_BYTES + size_bytes
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatch(
            f"batch says {header.record_count} records and last offset delta "
            f"{header.last_offset_delta}"
        )
    if size_bytes > max(_HEADERS_COUNTED_FROM_BYTES, HEADER_BYTES_MIN * bounds.records):
        payload = memoryview(plain)[HEADER_BYTES:end]
        check_header_counts(payload, header.record_count, bounds.records)
    plain[:HEADER_BYTES] = batch[:HEADER_BYTES]
    plain[_CODEC_POSITION] &= ~COMPRESSION_MASK
    records: Iterator[StoredRecord] = iter(DefaultRecordBatch(memoryview(plain)[:end]))
    return records


def _undecodable(error: Exception) -> CorruptBatch:
    return CorruptBatch(f"batch cannot be decoded: {error}")


def decode_records(batch: Buffer, bounds: DecodingBounds = DEFAULT_BOUNDS) -> list[Record]:
    """As above, and the records have the offsets that their batch has."""
    records = [
        Record(
            offset=record.offset,
            timestamp_ms=NO_TIMESTAMP if record.timestamp is None else record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
        )
        for record in open_records(batch, bounds)
    ]
    check_offsets(batch, [record.offset for record in records])
    return records


def check_offsets(batch: Buffer, offsets: Sequence[int]) -> None:
    """Refuse records whose offsets do not rise, or are not those of their batch."""
    if not offsets:
        return
    header = read_header(batch)
    rise = all(map(operator.lt, offsets, islice(offsets, 1, None)))
    if not rise or offsets[0] < header.base_offset or offsets[-1] > header.last_offset:
        raise CorruptBatch(
            f"batch of offsets {header.base_offset} to {header.last_offset} has records with others"
        )


def encode_records(
    records: Sequence[NewRecord] | Iterable[NewRecord],
    *,
    now_ms: int,
    compression: int = 0,
    is_transactional: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Encode records into one batch with base offset 0."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=int(is_transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**31 - 1,
    )
    for delta, record in enumerate(records):
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        builder.append(delta, timestamp_ms, record.key, record.value, list(record.headers))
    batch: bytearray = builder.build()
    return batch


def find_first_since(
    batch: Buffer, timestamp_ms: int, start: int, bounds: DecodingBounds = DEFAULT_BOUNDS
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after `start` of this time or later.

    Stops there: the rest of a large batch is not decoded.
    """
    records = _opened(batch, bounds)
    try:
        # Not by `open_records`: a generator in between takes half as long as the rest.
        for record in records:
            found_ms = record.timestamp
            if found_ms is None:
                found_ms = NO_TIMESTAMP
            if found_ms >= timestamp_ms and record.offset >= start:
                break
        else:
            return None
    except Exception as error:
        raise _undecodable(error) from error
    check_offsets(batch, [record.offset])
    return record.offset, found_ms
