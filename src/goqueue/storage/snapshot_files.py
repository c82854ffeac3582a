"""What is remembered of a log, written beside it so that a start need not read it all.

Each kind has a suffix of its own. The content is its owner's, checksum included: a snapshot only
saves time, and a damaged one is passed over for the one before it.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.storage.disk import Disk
from goqueue.storage.open_file import OpenFile

logger = logging.getLogger(__name__)


class SnapshotKind(NamedTuple):
    """`kept` are written before the oldest goes: one to use, the others to fall back on."""

    suffix: str
    kept: int


PRODUCERS: Final = SnapshotKind(".producers", kept=2)
LANES: Final = SnapshotKind(".lanes", kept=2)
# The table of a state topic takes minutes to make anew from a long log.
STATE: Final = SnapshotKind(".state", kept=3)


def write_snapshot(
    disk: Disk,
    folder: Path,
    kind: SnapshotKind,
    offset: int,
    content: bytes,
    *,
    durable: bool = True,
) -> None:
    """Blocking. `content` stands for everything below `offset`.

    Not `durable`: a power cut soon after may cost this one, and a start then reads more of the log.
    """
    path = _path(folder, kind, offset)
    temporary = path.with_name(path.name + ".tmp")
    with OpenFile(disk, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(content, 0)
        if durable:
            file.sync()
    disk.rename(temporary, path)
    if durable:
        disk.fsync_dir(folder)
    for old in snapshot_offsets(disk, folder, kind)[kind.kept :]:
        disk.unlink(_path(folder, kind, old))


def read_snapshots(
    disk: Disk, folder: Path, kind: SnapshotKind, *, log_end: int
) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each snapshot that can be read, newest first.

    Those beyond the end of the log are removed: the log was cut below them, and what is written at
    these offsets from now on is something else.
    """
    for offset in snapshot_offsets(disk, folder, kind):
        path = _path(folder, kind, offset)
        if offset > log_end:
            disk.unlink(path)
            continue
        try:
            with OpenFile(disk, path) as file:
                content = file.read_all()
        except OSError as error:
            logger.warning("snapshot %s is passed over: %s", path, error)
            continue
        yield offset, content


def snapshot_offsets(disk: Disk, folder: Path, kind: SnapshotKind) -> list[int]:
    """Newest first."""
    suffix = kind.suffix
    names = (name.removesuffix(suffix) for name in disk.listdir(folder) if name.endswith(suffix))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)


def _path(folder: Path, kind: SnapshotKind, offset: int) -> Path:
    return folder / f"{offset:020d}{kind.suffix}"
