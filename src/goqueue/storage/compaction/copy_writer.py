"""The copy of one or more neighbouring segments, written batch by batch."""

import os
from pathlib import Path
from typing import Final

from goqueue.model.batch import NO_TIMESTAMP, BatchHeader, read_header
from goqueue.model.batch_editing import OFFSET_DELTA_MAX, covering
from goqueue.storage.compaction.plan import CleanedSegment
from goqueue.storage.disk import Disk
from goqueue.storage.index import SealedIndex, SegmentIndex
from goqueue.storage.open_file import OpenFile
from goqueue.storage.segment_files import SegmentFiles

CLEANED_SUFFIX: Final = ".cleaned"
# Writes of this size run at disk speed.
_BUFFER_BYTES: Final = 1024 * 1024
# The disk gets the copy in slices, so that the broker's own writes need not wait for all of it.
_SYNC_BYTES: Final = 4 * 1024 * 1024


def cleaned_ending(token: str) -> str:
    return f".{token}{CLEANED_SUFFIX}"


class CopyWriter:
    """Takes every batch of its segments in order, either to `keep` or to `drop`."""

    def __init__(
        self, disk: Disk, folder: Path, token: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._files = SegmentFiles(disk, folder, base_offset, ending=cleaned_ending(token))
        self._file = OpenFile(disk, self._files.path(), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._index = SegmentIndex()
        self._index_interval_bytes = index_interval_bytes
        self._since_entry = 0
        self._max_timestamp_ms = NO_TIMESTAMP
        self._base_offset = base_offset
        self._next_offset = base_offset
        self._buffer = bytearray()
        self._written_bytes = 0
        self._synced_bytes = 0
        self._replaced: list[int] = []
        # What was dropped since the last kept batch, as one leader wrote it.
        self._dropped_from = base_offset
        self._dropped_epoch = 0

    @property
    def base_offset(self) -> int:
        return self._base_offset

    @property
    def size_bytes(self) -> int:
        return self._written_bytes + len(self._buffer)

    def begin(self, base_offset: int) -> None:
        """Go on with the batches of this segment."""
        self._replaced.append(base_offset)

    def keep(self, batch: bytes, header: BatchHeader) -> None:
        self._cover()
        self._add(batch, header)
        self._dropped_from = self._next_offset

    def drop(self, header: BatchHeader) -> None:
        has_dropped = self._dropped_from < self._next_offset
        if has_dropped and (
            header.leader_epoch != self._dropped_epoch
            or header.last_offset - self._dropped_from > OFFSET_DELTA_MAX
        ):
            self._cover()
        self._dropped_epoch = header.leader_epoch
        self._next_offset = header.next_offset

    def finish(self) -> CleanedSegment:
        """Blocking: the copy is on disk on return."""
        self._cover()
        self._write()
        self._file.sync()
        sealed = SealedIndex(self._index, self._max_timestamp_ms, self._next_offset)
        self._files.save_index(sealed, self._written_bytes)
        return CleanedSegment(
            base_offset=self._base_offset,
            next_offset=self._next_offset,
            size_bytes=self._written_bytes,
            replaced=tuple(self._replaced),
        )

    def _cover(self) -> None:
        if self._dropped_from < self._next_offset:
            batch = covering(self._dropped_from, self._next_offset, self._dropped_epoch)
            self._add(batch, read_header(batch))
            self._dropped_from = self._next_offset

    def _add(self, batch: bytes, header: BatchHeader) -> None:
        if self._since_entry > self._index_interval_bytes:
            relative_offset = header.base_offset - self._base_offset
            self._index.add(relative_offset, self.size_bytes, self._max_timestamp_ms)
            self._since_entry = 0
        self._since_entry += len(batch)
        if header.record_count:
            self._max_timestamp_ms = max(self._max_timestamp_ms, header.max_timestamp_ms)
        self._buffer += batch
        self._next_offset = header.next_offset
        if len(self._buffer) >= _BUFFER_BYTES:
            self._write()

    def _write(self) -> None:
        self._file.write(self._buffer, self._written_bytes)
        self._written_bytes += len(self._buffer)
        self._buffer.clear()
        if self._written_bytes - self._synced_bytes >= _SYNC_BYTES:
            self._file.sync()
            self._synced_bytes = self._written_bytes
