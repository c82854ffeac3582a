"""Batches of one partition, gathered into chunks that become objects. Pure."""

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from goqueue.backup.errors import BackupDamaged
from goqueue.backup.manifest import Chunk
from goqueue.model.batch import BatchHeader, Buffer, iterate_batches
from goqueue.model.errors import CorruptBatch

# A few parts of an upload; with some at once it stays within memory that nobody notices.
CHUNK_BYTES_MAX: Final = 32 * 1024 * 1024
# Below this an object costs more than what is in it.
CHUNK_BYTES_MIN: Final = 1024 * 1024


def chunk_bytes(segment_bytes: int) -> int:
    """A restored chunk is a segment, which retention deletes as a whole: so none is larger than the
    topic's segments are, within reason."""
    return max(CHUNK_BYTES_MIN, min(CHUNK_BYTES_MAX, segment_bytes))


class FullChunk(NamedTuple):
    chunk: Chunk
    content: bytes


class Gatherer:
    """Takes batches in order of offset; what `add` and `finish` return is to be stored."""

    def __init__(self, limit_bytes: int, borders: frozenset[int] = frozenset()) -> None:
        """`borders` are offsets at which chunks of an earlier backup began: what has not changed
        since becomes the same objects again."""
        self._limit_bytes = limit_bytes
        self._borders = borders
        self._content = bytearray()
        self._missing = 0
        self._first = 0
        self._last: BatchHeader | None = None

    def add(self, batch: Buffer, header: BatchHeader) -> FullChunk | None:
        """A chunk that is full now, without this batch, if there is one."""
        full = None
        if self._content and self._ends_before(len(batch), header.base_offset):
            full = self._take(is_full=True)
        if not self._content:
            self._first = header.base_offset
        elif self._last is not None:
            self._missing += max(0, header.base_offset - self._last.next_offset)
        self._content += batch
        self._last = header
        return full

    def _ends_before(self, batch_bytes: int, base_offset: int) -> bool:
        if len(self._content) + batch_bytes > self._limit_bytes:
            return True
        # What compaction has made small is not kept apart for ever.
        return base_offset in self._borders and len(self._content) >= self._limit_bytes // 4

    def finish(self) -> FullChunk | None:
        """The rest; a later backup makes it anew, with what comes after it."""
        return self._take(is_full=False) if self._content else None

    def _take(self, *, is_full: bool) -> FullChunk:
        assert self._last is not None
        content = bytes(self._content)
        chunk = Chunk(
            sha=hashlib.sha256(content).hexdigest(),
            size=len(content),
            first=self._first,
            next=self._last.next_offset,
            last=self._last.base_offset,
            last_crc=self._last.crc,
            missing=self._missing,
            is_full=is_full,
        )
        self._content = bytearray()
        self._missing = 0
        return FullChunk(chunk, content)


class CheckedBatch(NamedTuple):
    position: int
    header: BatchHeader
    # The offset after the batch before it: there is a gap if this one begins later.
    reached: int


def check_content(content: bytes, sha: str, size: int) -> None:
    """`BackupDamaged` unless an object is what its name says."""
    if len(content) != size:
        raise BackupDamaged(f"object {sha} has {len(content)} bytes; there were {size}")
    if hashlib.sha256(content).hexdigest() != sha:
        raise BackupDamaged(f"object {sha} is not what was once written")


def checked_batches(content: bytes, chunk: Chunk, reached: int) -> Iterator[CheckedBatch]:
    """Every batch of an object, held against its own checksum and against the manifest.

    `reached` is where the chunk before ended, or the log's start.
    """
    check_content(content, chunk.sha, chunk.size)
    missing = 0
    first: int | None = None
    last: BatchHeader | None = None
    try:
        for position, header in iterate_batches(content):
            begins_late = header.base_offset - reached
            if header.base_offset < 0 or header.last_offset_delta < 0:
                raise CorruptBatch(f"offset {header.base_offset} or its delta makes no sense")
            if begins_late < 0 and last is not None:
                raise CorruptBatch(f"offset {header.base_offset} comes after {reached}")
            if last is not None:
                missing += begins_late
            yield CheckedBatch(position, header, reached)
            first = header.base_offset if first is None else first
            last, reached = header, header.next_offset
    except CorruptBatch as error:
        raise BackupDamaged(f"object {chunk.sha}: {error}") from error
    found = None if last is None else (first, last.next_offset, last.base_offset, last.crc)
    if found != (chunk.first, chunk.next, chunk.last, chunk.last_crc) or missing != chunk.missing:
        raise BackupDamaged(f"object {chunk.sha} has other offsets than its manifest says")
