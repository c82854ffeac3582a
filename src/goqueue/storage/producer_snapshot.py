"""Producer state written beside the log, so that a start need not read the whole log for it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.storage.disk import Disk
from goqueue.storage.open_file import OpenFile

SUFFIX: Final = ".producers"
# One to fall back on, should the newest turn out damaged.
KEPT_SNAPSHOTS: Final = 2


def write_producer_snapshot(disk: Disk, folder: Path, offset: int, content: bytes) -> None:
    """Blocking; durable on return. `content` stands for everything below `offset`."""
    path = folder / f"{offset:020d}{SUFFIX}"
    temporary = path.with_name(path.name + ".tmp")
    with OpenFile(disk, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(content, 0)
        file.sync()
    disk.rename(temporary, path)
    disk.fsync_dir(folder)
    for old in _offsets(disk, folder)[KEPT_SNAPSHOTS:]:
        disk.unlink(folder / f"{old:020d}{SUFFIX}")


def producer_snapshots(disk: Disk, folder: Path, *, log_end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each snapshot, newest first.

    Those beyond the end of the log are removed: the log was cut below them, and what is written at
    these offsets from now on is something else.
    """
    for offset in _offsets(disk, folder):
        path = folder / f"{offset:020d}{SUFFIX}"
        if offset > log_end:
            disk.unlink(path)
            continue
        with OpenFile(disk, path) as file:
            yield offset, file.read_all()


def _offsets(disk: Disk, folder: Path) -> list[int]:
    names = (name.removesuffix(SUFFIX) for name in disk.listdir(folder) if name.endswith(SUFFIX))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)
