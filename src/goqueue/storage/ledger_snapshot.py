"""What a partition remembers of its log, written beside it so that a start need not read it all.

Each kind (producers, lanes) has a suffix of its own. The content is the owner's, checksum included.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.storage.disk import Disk
from goqueue.storage.open_file import OpenFile

# One to fall back on, should the newest turn out damaged.
KEPT_SNAPSHOTS: Final = 2

PRODUCERS: Final = ".producers"
LANES: Final = ".lanes"


def write_ledger_snapshot(
    disk: Disk, folder: Path, suffix: str, offset: int, content: bytes
) -> None:
    """Blocking; durable on return. `content` stands for everything below `offset`."""
    path = _path(folder, suffix, offset)
    temporary = path.with_name(path.name + ".tmp")
    with OpenFile(disk, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(content, 0)
        file.sync()
    disk.rename(temporary, path)
    disk.fsync_dir(folder)
    for old in _offsets(disk, folder, suffix)[KEPT_SNAPSHOTS:]:
        disk.unlink(_path(folder, suffix, old))


def ledger_snapshots(
    disk: Disk, folder: Path, suffix: str, *, log_end: int
) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each snapshot, newest first.

    Those beyond the end of the log are removed: the log was cut below them, and what is written at
    these offsets from now on is something else.
    """
    for offset in _offsets(disk, folder, suffix):
        path = _path(folder, suffix, offset)
        if offset > log_end:
            disk.unlink(path)
            continue
        with OpenFile(disk, path) as file:
            yield offset, file.read_all()


def _path(folder: Path, suffix: str, offset: int) -> Path:
    return folder / f"{offset:020d}{suffix}"


def _offsets(disk: Disk, folder: Path, suffix: str) -> list[int]:
    names = (name.removesuffix(suffix) for name in disk.listdir(folder) if name.endswith(suffix))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)
