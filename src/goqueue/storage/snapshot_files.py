"""What is remembered of a log, written beside it so that a start need not read it all.

Each kind has a suffix of its own. The content is its owner's, checksum included: a snapshot only
saves time, and a damaged one is passed over for the one before it.

A snapshot stands for everything below an offset. The offset alone does not say of which log: one
that was cut and written on gets there again with other records. So a file begins with the leader
epoch of the last record that it stands for, and is used only where the log has that epoch there.
The checksum of these first bytes is over the file's name and its folder's, too: one that was copied
from another partition does not fit.
"""

import logging
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from goqueue.storage.disk import Disk
from goqueue.storage.epochs import NO_EPOCH, LeaderEpochs
from goqueue.storage.open_file import OpenFile
from goqueue.storage.segment_files import base_offset_in

logger = logging.getLogger(__name__)

# Files of earlier releases have no frame; no content of theirs begins so.
_MAGIC: Final = b"GQSNAP02"
_FIELDS: Final = struct.Struct(">8sq")
_CHECKSUM: Final = struct.Struct(">I")
_FRAME_BYTES: Final = _FIELDS.size + _CHECKSUM.size


class SnapshotKind(NamedTuple):
    """`kept` are written before the oldest goes: one to use, the others to fall back on."""

    suffix: str
    kept: int


PRODUCERS: Final = SnapshotKind(".producers", kept=2)
LANES: Final = SnapshotKind(".lanes", kept=2)
# The table of a state topic takes minutes to make anew from a long log.
STATE: Final = SnapshotKind(".state", kept=3)
_KINDS: Final = (PRODUCERS, LANES, STATE)


class LogSnapshots:
    """The snapshots beside one log. Its methods may run in any thread.

    Whoever writes one takes `cuts` when it begins to look at the log. If the log is cut before the
    snapshot is written, it is of a log that is no more, and is not written.
    """

    __slots__ = ("_disk", "_epochs", "_folder", "_writing", "cuts")

    def __init__(self, disk: Disk, folder: Path, epochs: LeaderEpochs) -> None:
        self.cuts = 0
        self._disk = disk
        self._folder = folder
        self._epochs = epochs
        # Held while a file is written or the log is about to be cut.
        self._writing = threading.Lock()

    def write(
        self, kind: SnapshotKind, offset: int, content: bytes, *, cuts: int, durable: bool = True
    ) -> bool:
        """Blocking. `content` stands for everything below `offset`; False if the log was cut.

        Not `durable`: a power cut soon after may cost this one, and a start then reads more of the
        log.
        """
        disk, folder = self._disk, self._folder
        path = _path(folder, kind, offset)
        temporary = path.with_name(path.name + ".tmp")
        with self._writing:
            if cuts != self.cuts:
                return False
            with OpenFile(disk, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
                file.write(_framed(path, self._epoch_before(offset), content), 0)
                if durable:
                    file.sync()
            disk.rename(temporary, path)
            if durable:
                disk.fsync_dir(folder)
            for old in self.offsets(kind)[kind.kept :]:
                disk.unlink(_path(folder, kind, old))
        return True

    def read(
        self, kind: SnapshotKind, *, log_end: int, up_to: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Offset and content of each snapshot that can be read, newest first; none above `up_to`.

        Those beyond the end of the log are removed, and those of another history: the log was cut
        below them, and what is written at these offsets is something else.
        """
        for offset in self.offsets(kind):
            path = _path(self._folder, kind, offset)
            if offset > log_end:
                self._disk.unlink(path)
                continue
            if up_to is not None and offset > up_to:
                continue
            try:
                with OpenFile(self._disk, path) as file:
                    epoch, content = _unframed(path, file.read_all())
            except OSError as error:
                logger.warning("snapshot %s is passed over: %s", path, error)
                continue
            if epoch != NO_EPOCH and self._epoch_before(offset) not in (epoch, NO_EPOCH):
                logger.warning("snapshot %s is removed: it is of epoch %d", path, epoch)
                self._disk.unlink(path)
                continue
            yield offset, content

    def offsets(self, kind: SnapshotKind) -> list[int]:
        """Newest first."""
        return snapshot_offsets(self._disk, self._folder, kind)

    def cut(self, offset: int) -> None:
        """Blocking: the log is about to be cut at `offset`. What stands for more goes."""
        with self._writing:
            self.cuts += 1
            for kind in _KINDS:
                for found in self.offsets(kind):
                    if found > offset:
                        self._disk.unlink(_path(self._folder, kind, found))

    def _epoch_before(self, offset: int) -> int:
        epoch, _ = self._epochs.covering(offset - 1)
        return epoch


def snapshot_offsets(disk: Disk, folder: Path, kind: SnapshotKind) -> list[int]:
    """Newest first."""
    suffix = kind.suffix
    found = (base_offset_in(name, suffix) for name in disk.listdir(folder))
    return sorted((offset for offset in found if offset is not None), reverse=True)


def _path(folder: Path, kind: SnapshotKind, offset: int) -> Path:
    return folder / f"{offset:020d}{kind.suffix}"


def _framed(path: Path, epoch: int, content: bytes) -> bytes:
    fields = _FIELDS.pack(_MAGIC, epoch)
    return fields + _CHECKSUM.pack(_checksum(path, fields)) + content


def _checksum(path: Path, fields: bytes) -> int:
    return crc32c(f"{path.parent.name}/{path.name}".encode(), crc32c(fields))


def _unframed(path: Path, data: bytes) -> tuple[int, bytes]:
    """The epoch, NO_EPOCH if it is not known, and the content, whose owner knows if it is whole."""
    if not data.startswith(_MAGIC) or len(data) < _FRAME_BYTES:
        return NO_EPOCH, data
    (checksum,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if _checksum(path, data[: _FIELDS.size]) != checksum:
        raise OSError("its first bytes are damaged, or those of another file")
    _, epoch = _FIELDS.unpack_from(data)
    return epoch, data[_FRAME_BYTES:]
