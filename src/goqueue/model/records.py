"""Single records in and out of batches: for the features that must look inside one.

Encoding and decoding run in aiokafka's compiled code; nothing here is on the produce or fetch path
of Kafka clients.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from goqueue.model.batch import (
    COMPRESSION_NAMES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
)
from goqueue.model.errors import CorruptBatch

Header = tuple[str, bytes | None]

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


def decode_records(batch: Buffer) -> list[Record]:
    """Decode one whole batch whose checksum was verified."""
    try:
        return [
            Record(
                offset=record.offset,
                timestamp_ms=record.timestamp,
                key=record.key,
                value=record.value,
                headers=tuple(record.headers),
            )
            for record in DefaultRecordBatch(bytes(batch))
        ]
    except Exception as error:  # the decoder raises whatever its codecs raise
        raise CorruptBatch(f"batch cannot be decoded: {error}") from error


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


def find_first_since(batch: Buffer, timestamp_ms: int, start: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after `start` of this time or later.

    Stops there: the rest of a large batch is not decoded.
    """
    try:
        for record in DefaultRecordBatch(bytes(batch)):
            if record.timestamp >= timestamp_ms and record.offset >= start:
                return record.offset, record.timestamp
    except Exception as error:  # the decoder raises whatever its codecs raise
        raise CorruptBatch(f"batch cannot be decoded: {error}") from error
    return None
