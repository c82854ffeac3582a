"""Make a damaged segment readable: what is lost becomes batches without records.

The messages in the damaged stretches are gone; all others stay at their offsets. The damaged file
is kept beside the new one, under a name that no broker looks at. Those of earlier repairs stay as
well, each with a number: whoever has them may still get something out of them.
"""

import os
from itertools import count
from pathlib import Path
from typing import Final

from goqueue.model.batch_editing import covering_all
from goqueue.storage.disk import Disk
from goqueue.storage.mending.checking import DamagedLog, read_epochs
from goqueue.storage.open_file import OpenFile
from goqueue.storage.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name

DAMAGED_SUFFIX: Final = ".damaged"
_MENDED_SUFFIX: Final = ".mended.tmp"
# How much is held in memory while a segment is copied.
_COPY_BYTES: Final = 1024 * 1024


def mend(disk: Disk, damaged: DamagedLog) -> Path:
    """Blocking: put a readable segment in the place of the damaged one; returns the latter's name.

    A stop half-way leaves the damaged file or the new one in place.
    """
    mended = damaged.path.with_name(damaged.path.name + _MENDED_SUFFIX)
    _write(disk, damaged, mended)
    kept = _keep(disk, damaged.path)
    disk.rename(mended, damaged.path)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        # Made anew from the log.
        disk.unlink(damaged.folder / file_name(damaged.base_offset, suffix))
    disk.fsync_dir(damaged.folder)
    return kept


def _keep(disk: Disk, path: Path) -> Path:
    """A second name for the old file, so that the log is never without this segment."""
    for number in count(1):
        kept = path.with_name(path.name + DAMAGED_SUFFIX + (f".{number}" if number > 1 else ""))
        try:
            disk.link(path, kept)
        except FileExistsError:
            if not kept.samefile(path):
                continue
            # A repair got as far as this, and no further.
        return kept
    raise AssertionError("numbers have no end")


def _write(disk: Disk, damaged: DamagedLog, target: Path) -> None:
    epochs = read_epochs(disk, damaged.folder)
    size = disk.stat(damaged.path).st_size
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
    with OpenFile(disk, damaged.path) as source, OpenFile(disk, target, flags) as copy:
        read_to = written = 0
        for gap in damaged.gaps:
            written = _copy(source, copy, read_to, gap.position, written)
            read_to = gap.end_position
            epoch, _ = epochs.covering(gap.first_offset)
            for batch in covering_all(gap.first_offset, gap.next_offset, epoch):
                copy.write(batch, written)
                written += len(batch)
        _copy(source, copy, read_to, size, written)
        copy.sync()


def _copy(source: OpenFile, target: OpenFile, start: int, end: int, written: int) -> int:
    while start < end:
        part = source.read(min(_COPY_BYTES, end - start), start)
        target.write(part, written)
        written += len(part)
        start += len(part)
    return written
