"""`traceparent` headers in record batches, found without decoding what has none."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import cramjam
from aiokafka.record.default_records import DefaultRecordBatch

from goqueue.model.batch import COMPRESSION_NAMES, HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.byte_pattern import BytePattern
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import Header
from goqueue.model.tracing.traceparent import HEADER, TraceParent, parse_traceparent

# As a record has it: the name with its length and the length of a value of version 00 (55 bytes),
# both as zigzag varints. What producers write into values does not look like this.
_VALUE_BYTES: Final = 55
_HEADER_IN_RECORD: Final = BytePattern(
    bytes([len(HEADER) << 1]) + HEADER.encode() + bytes([_VALUE_BYTES << 1])
)
_FLAGS_AT: Final = _HEADER_IN_RECORD.size_bytes + _VALUE_BYTES - 1
# The last digit of the flags is odd where the sampled bit is set.
_SAMPLED_DIGITS: Final = frozenset(b"13579bdf")
# Headers looked at in one batch for one that is sampled: the first few tell what a producer does.
_LOOKS_MAX: Final = 16
# Unpacked on the event loop for the headers of one batch, in a millisecond. A few KB can unpack to
# gigabytes.
UNPACKED_MAX_BYTES: Final = 1024 * 1024
# What Java's library puts before its blocks: a mark of 8 bytes and two versions of 4.
_XERIAL_MARK: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_SIZE_BYTES: Final = 4
# It makes blocks of 32 KB; smaller ones need not be put up with.
_BLOCKS_MAX: Final = 64


def carries_traceparent(data: Buffer) -> bool:
    """Whether there is one in sight; compression hides them."""
    return _HEADER_IN_RECORD.is_in(data)


def asks_to_be_traced(batch: Buffer) -> bool:
    """Whether one of the first few headers has the sampled flag."""
    for place in islice(_HEADER_IN_RECORD.places_in(batch), _LOOKS_MAX):
        if place + _FLAGS_AT >= len(batch):
            return False
        if batch[place + _FLAGS_AT] in _SAMPLED_DIGITS:
            return True
    return False


def is_quickly_decoded(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the records are no more than is decoded on the event loop."""
    if not header.compression:
        return True
    packed = batch[HEADER_BYTES:]
    codec = COMPRESSION_NAMES[header.compression]
    try:
        if codec == "snappy":
            return _unsnapped_bytes(packed) <= UNPACKED_MAX_BYTES
        # Stops with an error where the room ends.
        getattr(cramjam, codec).decompress_into(packed, bytearray(UNPACKED_MAX_BYTES))
    except (cramjam.DecompressionError, ValueError):
        return False
    return True


def _unsnapped_bytes(packed: memoryview) -> int:
    """As the blocks say, whose decoder takes them at their word."""
    length = cramjam.snappy.decompress_raw_len
    if bytes(packed[: len(_XERIAL_MARK)]) != _XERIAL_MARK:
        return int(length(packed))
    size = 0
    position = _XERIAL_HEADER_BYTES
    for _ in range(_BLOCKS_MAX):
        start = position + _BLOCK_SIZE_BYTES
        position = start + int.from_bytes(packed[position:start], "big")
        size += length(packed[start:position])
        if position >= len(packed):
            return size
    raise ValueError(f"more than {_BLOCKS_MAX} blocks")


def parents_in(batch: Buffer) -> Iterator[tuple[int, TraceParent | None]]:
    """Offset of every record, with what its header says; decodes the batch."""
    try:
        for record in DefaultRecordBatch(bytes(batch)):
            yield record.offset, parent_of(record.headers)
    except Exception as error:  # the decoder raises whatever its codecs raise
        raise CorruptBatch(f"batch cannot be decoded: {error}") from error


def parent_of(headers: "list[Header] | tuple[Header, ...]") -> TraceParent | None:
    for name, value in headers:
        if name == HEADER:
            return parse_traceparent(value)
    return None
