"""Which transactions of a partition were aborted: what a read-committed consumer must skip.

An append-only file beside the log, with a checksum per entry. It need not be flushed with the log:
producer snapshots are written after it was, and whatever came later is found again by replaying the
log from the newest snapshot. The snapshot also says how many entries there were and their checksum
(`Seal`): a file that is damaged, cut, old or gone does not fit, and is made anew from the log.

The file is opened for each write. Aborts are rare, and a descriptor per partition is not.
"""

import logging
import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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


class Seal(NamedTuple):
    """How many entries, and the CRC-32C over all of them as they are written."""

    entries: int
    checksum: int


class AbortedTransactions:
    """Entries in the order of their markers. 32 bytes of memory each."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._path = folder / FILE_NAME
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")
        # Over all entries as they are written.
        self._checksum = 0
        # Entries that are in the file.
        self._written = 0
        # Whether the file held something that was never written so.
        self.is_damaged = False
        self._load()

    def __len__(self) -> int:
        return len(self._last_offsets)

    def append(self, entry: AbortedTransaction) -> None:
        """The file may fall behind, as on a full disk: `sync` brings it up to date."""
        self._remember(entry)
        try:
            self.catch_up()
        except OSError as error:
            logger.warning("%s falls behind: %s", self._path, error)

    def catch_up(self) -> None:
        """Write what is missing in the file, or `OSError`."""
        count = len(self)
        if self._written == count:
            return
        missing = b"".join(_encode(self._at(position)) for position in range(self._written, count))
        with OpenFile(self._disk, self._path, os.O_RDWR | os.O_CREAT) as file:
            file.write(missing, self._written * _ENTRY.size)
        self._written = count

    def seal(self) -> Seal:
        """What a snapshot notes, to know this very list again."""
        return Seal(len(self), self._checksum)

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
        self.catch_up()
        if self._written:
            with OpenFile(self._disk, self._path, os.O_RDWR) as file:
                file.sync()

    def truncate_to(self, offset: int) -> None:
        """Forget markers at or after `offset`."""
        keep = bisect_left(self._last_offsets, offset)
        if keep == len(self):
            return
        self._keep(keep)
        if keep < self._written:
            self._written = keep
            self._cut_file()

    def drop_before(self, offset: int) -> bool:
        """Forget transactions that ended before `offset`, once that is worth a rewrite.

        True if it was: no seal from before fits any longer.
        """
        gone = bisect_left(self._last_offsets, offset)
        if gone < REWRITE_AT_LEAST or gone < len(self) // 2:
            return False
        # After a power cut the seal does not fit, and the list is read from the log again.
        kept = [self._at(position) for position in range(gone, len(self))]
        self.replace(kept, durable=False)
        return True

    def discard(self, last_offsets: Iterable[int]) -> bool:
        """Forget the transactions with these markers; durable on return. True if there were any.

        Compaction has removed their records, and is about to remove the markers: to a consumer
        that is told of a transaction it would never end.
        """
        gone = set(last_offsets)
        kept = [entry for entry in self._entries() if entry.last_offset not in gone]
        if len(kept) == len(self):
            return False
        self.replace(kept)
        return True

    def replace(self, entries: Sequence[AbortedTransaction], *, durable: bool = True) -> None:
        """Have these entries and no others."""
        temporary = self._path.with_name(FILE_NAME + ".tmp")
        with OpenFile(self._disk, temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as file:
            file.write(b"".join(_encode(entry) for entry in entries), 0)
            if durable:
                file.sync()
        self._disk.rename(temporary, self._path)
        if durable:
            self._disk.fsync_dir(self._path.parent)
        self._keep(0)
        for entry in entries:
            self._remember(entry)
        self._written = len(self)
        self.is_damaged = False

    def _load(self) -> None:
        try:
            with OpenFile(self._disk, self._path) as file:
                data = file.read_all()
        except FileNotFoundError:
            return
        for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            *fields, checksum = _ENTRY.unpack_from(data, position)
            if crc32c(data[position : position + _FIELDS.size]) != checksum:
                break
            self._remember(AbortedTransaction(*fields))
        self._written = len(self)
        if self._written * _ENTRY.size != len(data):
            self.is_damaged = True
            self._cut_file()

    def _cut_file(self) -> None:
        """Take away what stands behind the entries."""
        with OpenFile(self._disk, self._path, os.O_RDWR) as file:
            file.truncate(self._written * _ENTRY.size)

    def _remember(self, entry: AbortedTransaction) -> None:
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)
        self._checksum = crc32c(_encode(entry), self._checksum)

    def _keep(self, count: int) -> None:
        """Forget all but the first `count`."""
        for column in self._columns():
            del column[count:]
        self._checksum = 0
        for entry in self._entries():
            self._checksum = crc32c(_encode(entry), self._checksum)

    def _columns(self) -> tuple["array[int]", ...]:
        return self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets

    def _at(self, position: int) -> AbortedTransaction:
        return AbortedTransaction(*(column[position] for column in self._columns()))

    def _entries(self) -> Iterator[AbortedTransaction]:
        return (self._at(position) for position in range(len(self)))


def _encode(entry: AbortedTransaction) -> bytes:
    fields = _FIELDS.pack(*entry)
    return fields + struct.pack(">I", crc32c(fields))
