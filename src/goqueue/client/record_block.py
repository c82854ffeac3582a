"""Encoded records on their way to a partition, and the batch of format 2 they become."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    CRC_POSITION,
    HEADER_BYTES,
    HEADER_FIELDS,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    Buffer,
)

# Names as in `compression.type` of Kafka's producers; numbers as in a batch's attributes.
COMPRESSIONS: Final[Mapping[str, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

_CRC: Final = struct.Struct(">I")
_SEQUENCE_MASK: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """The records of one batch: what follows its header, perhaps compressed."""

    topic: str
    partition: int
    records: Buffer
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    compression: int = 0

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self.records)


def next_sequence(sequence: int, count: int) -> int:
    """Sequences go on from 0 after the largest number of 31 bits."""
    return (sequence + count) & _SEQUENCE_MASK


def build_batch(
    block: RecordBlock,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> bytes:
    attributes = block.compression | (TRANSACTIONAL_BIT if is_transactional else 0)
    header = bytearray(HEADER_BYTES)
    HEADER_FIELDS.pack_into(
        header,
        0,
        0,
        block.size_bytes - LENGTH_PREFIX_BYTES,
        -1,
        MAGIC_V2,
        0,
        attributes,
        block.record_count - 1,
        block.base_timestamp_ms,
        block.max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        block.record_count,
    )
    checksum = crc32c(block.records, crc32c(memoryview(header)[CHECKSUMMED_FROM:]))
    _CRC.pack_into(header, CRC_POSITION, checksum)
    return b"".join((header, block.records))


def compressor(name: str) -> Callable[[Buffer], bytes] | None:
    """A codec in the framing that Kafka's clients read; None for `none`."""
    if name == "none":
        return None
    from aiokafka import codec

    found: Callable[[Buffer], bytes] = {
        "gzip": codec.gzip_encode,
        "snappy": codec.snappy_encode,
        # Its fast level, as librdkafka's; aiokafka's own choice takes ten times as long.
        "lz4": lambda records: codec.lz4_encode(records, level=1),
        "zstd": codec.zstd_encode,
    }[name]
    return found
