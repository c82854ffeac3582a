"""The records of fetched batches as one piece of bytes, decompressed, in groups of bounded size."""

import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from goqueue.client.log_reader import FetchedBatches, LocatedBatch
from goqueue.model.batch import COMPRESSION_NAMES, HEADER_BYTES, Buffer
from goqueue.model.errors import CorruptBatch
from goqueue.spark.source import record_scan

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

# Enough for a good many rows, and little enough to stay in the processor's cache.
GROUP_BYTES: Final = 4 * 1024 * 1024
# Arrow's offsets are 32 bits wide.
MAX_SECTION_BYTES: Final = 2**31 - 1
# snappy-java's framing: a magic, two version numbers, then blocks with their lengths.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")


class SectionGroup(NamedTuple):
    """Batches whose records stand in `data`, as `record_scan` wants to know them."""

    data: Bytes
    batches: Numbers


def section_groups(fetched: FetchedBatches) -> Iterator[SectionGroup]:
    if not any(batch.header.compression for batch in fetched.batches):
        # As they were fetched, nothing is copied.
        places = [
            (batch.position + HEADER_BYTES, batch.position + batch.header.size_bytes)
            for batch in fetched.batches
        ]
        yield _group(fetched.content, fetched.batches, places)
        return
    for batches, sections in _bounded(fetched):
        ends = list(accumulate(map(len, sections)))
        yield _group(b"".join(sections), batches, list(zip([0, *ends], ends, strict=False)))


def _bounded(fetched: FetchedBatches) -> Iterator[tuple[list[LocatedBatch], list[bytes]]]:
    """Batches with their records decompressed, some megabytes at a time."""
    batches: list[LocatedBatch] = []
    sections: list[bytes] = []
    size = 0
    for batch in fetched.batches:
        section = _section(fetched.content, batch)
        if size + len(section) > GROUP_BYTES and batches:
            yield batches, sections
            batches, sections, size = [], [], 0
        batches.append(batch)
        sections.append(section)
        size += len(section)
    yield batches, sections


def _section(content: Buffer, batch: LocatedBatch) -> bytes:
    header = batch.header
    packed = memoryview(content)[batch.position + HEADER_BYTES : batch.position + header.size_bytes]
    if not header.compression:
        return bytes(packed)
    try:
        return decompress(packed, header.compression)
    except Exception as error:  # each codec has errors of its own
        raise CorruptBatch(
            f"batch at offset {header.base_offset} is compressed by number {header.compression} "
            f"and cannot be read: {error}"
        ) from error


def _group(
    data: Buffer, batches: list[LocatedBatch], places: list[tuple[int, int]]
) -> SectionGroup:
    table = np.empty((len(batches), record_scan.BATCH_COLUMNS), np.int64)
    for row, (batch, (start, end)) in enumerate(zip(batches, places, strict=True)):
        header = batch.header
        size = end - start
        if size > MAX_SECTION_BYTES or not (
            0 <= header.record_count <= size // record_scan.MIN_RECORD_BYTES
        ):
            raise CorruptBatch(
                f"batch at offset {header.base_offset} says {header.record_count} records in "
                f"{size} bytes"
            )
        table[row] = (
            start,
            end,
            header.base_offset,
            header.base_timestamp_ms,
            header.max_timestamp_ms if header.uses_append_time else record_scan.NO_APPEND_TIME,
            header.record_count,
        )
    return SectionGroup(np.frombuffer(data, np.uint8), table)


def decompress(packed: memoryview, compression: int) -> bytes:
    import cramjam

    name = COMPRESSION_NAMES[compression]
    if name == "gzip":
        return bytes(cramjam.gzip.decompress(packed))
    if name == "snappy":
        return _unsnap(packed)
    if name == "lz4":
        return bytes(cramjam.lz4.decompress(packed))
    return bytes(cramjam.zstd.decompress(packed))


def _unsnap(packed: memoryview) -> bytes:
    import cramjam

    if bytes(packed[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(packed))
    pieces = []
    position = _XERIAL_HEADER_BYTES
    while position < len(packed):
        (length,) = _BLOCK_LENGTH.unpack_from(packed, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(packed) - position:
            raise CorruptBatch(f"a block of {length} bytes does not fit")
        pieces.append(bytes(cramjam.snappy.decompress_raw(packed[position : position + length])))
        position += length
    return b"".join(pieces)
