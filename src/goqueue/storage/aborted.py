"""Which transactions of a partition were aborted: what a read-committed consumer must skip.

An append-only file beside the log, with a checksum per entry. It need not be flushed with the log:
producer snapshots are written after it was, and whatever came later is found again by replaying the
log from the newest snapshot.
"""

import logging
import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from goqueue.model.aborted import AbortedTransaction
from goqueue.storage.disk import Disk
from goqueue.storage.open_file import OpenFile

logger = logging.getLogger(__name__)

FILE_NAME: Final = "aborted.transactions"
# A rewrite costs a file; below this many dead entries it is not worth it.
REWRITE_AT_LEAST: Final = 1_024

_FIELDS: Final = struct.Struct(">qqqq")
_ENTRY: Final = struct.Struct(">qqqqI")


class AbortedTransactions:
    """Entries in the order of their markers. 32 bytes of memory each."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._path = folder / FILE_NAME
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")
        self._file: OpenFile | None = None
        # Entries that are in the file.
        self._written = 0
        self._load()

    def __len__(self) -> int:
        return len(self._last_offsets)

    def append(self, entry: AbortedTransaction) -> None:
        """The file may fall behind, as on a full disk: `sync` brings it up to date."""
        self._remember(entry)
        try:
            self._write_missing()
        except OSError as error:
            logger.warning("%s falls behind: %s", self._path, error)

    def _write_missing(self) -> None:
        count = len(self)
        if self._written == count:
            return
        if self._file is None:
            self._file = OpenFile(self._disk, self._path, os.O_RDWR | os.O_CREAT)
        missing = b"".join(_encode(self._at(position)) for position in range(self._written, count))
        self._file.write(missing, self._written * _ENTRY.size)
        self._written = count

    def overlapping(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Transactions that have data in this range, in the order of their markers."""
        found = []
        for position in range(bisect_left(self._last_offsets, first_offset), len(self)):
            if self._first_offsets[position] < end_offset:
                found.append(self._at(position))
            # Whatever was aborted later began after this transaction's stable offset.
            if self._stable_offsets[position] >= end_offset:
                break
        return found

    def sync(self) -> None:
        """Blocking: everything appended so far is on disk on return, or `OSError`."""
        self._write_missing()
        if self._file is not None:
            self._file.sync()

    def truncate_to(self, offset: int) -> None:
        """Forget markers at or after `offset`."""
        keep = bisect_left(self._last_offsets, offset)
        if keep == len(self):
            return
        self._forget(slice(keep, None))
        self._written = min(self._written, keep)
        if self._file is not None:
            self._file.truncate(self._written * _ENTRY.size)

    def drop_before(self, offset: int) -> None:
        """Forget transactions that ended before `offset`, once that is worth a rewrite."""
        gone = bisect_left(self._last_offsets, offset)
        if gone < REWRITE_AT_LEAST or gone < len(self) // 2:
            return
        self._rewrite([self._at(position) for position in range(gone, len(self))])

    def discard(self, last_offsets: Iterable[int]) -> None:
        """Forget the transactions with these markers; durable on return.

        Compaction has removed their records, and is about to remove the markers: to a consumer
        that is told of a transaction it would never end.
        """
        gone = set(last_offsets)
        kept = [entry for entry in self._entries() if entry.last_offset not in gone]
        if len(kept) < len(self):
            self._rewrite(kept)

    def _rewrite(self, kept: list[AbortedTransaction]) -> None:
        temporary = self._path.with_name(FILE_NAME + ".tmp")
        rewritten = OpenFile(self._disk, temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        rewritten.write(b"".join(_encode(entry) for entry in kept), 0)
        rewritten.sync()
        self._disk.rename(temporary, self._path)
        self._disk.fsync_dir(self._path.parent)
        self._file = rewritten
        self._forget(slice(None))
        for entry in kept:
            self._remember(entry)
        self._written = len(kept)

    def close(self) -> None:
        self.sync()
        if self._file is not None:
            self._file.close()

    def _load(self) -> None:
        try:
            self._file = OpenFile(self._disk, self._path, os.O_RDWR)
        except FileNotFoundError:
            return
        data = self._file.read_all()
        for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            *fields, checksum = _ENTRY.unpack_from(data, position)
            if crc32c(data[position : position + _FIELDS.size]) != checksum:
                break
            self._remember(AbortedTransaction(*fields))
        self._written = len(self)
        if len(self) * _ENTRY.size != len(data):
            self._file.truncate(len(self) * _ENTRY.size)

    def _remember(self, entry: AbortedTransaction) -> None:
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)

    def _forget(self, gone: slice) -> None:
        for column in self._columns():
            del column[gone]

    def _columns(self) -> tuple["array[int]", ...]:
        return self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets

    def _at(self, position: int) -> AbortedTransaction:
        return AbortedTransaction(*(column[position] for column in self._columns()))

    def _entries(self) -> Iterator[AbortedTransaction]:
        return (self._at(position) for position in range(len(self)))


def _encode(entry: AbortedTransaction) -> bytes:
    fields = _FIELDS.pack(*entry)
    return fields + struct.pack(">I", crc32c(fields))
