"""A file descriptor that lives as long as somebody holds it."""

import contextlib
import os
from pathlib import Path
from typing import Self

from goqueue.model.batch import Buffer
from goqueue.storage.disk import Disk


class OpenFile:
    """Closed when the last holder lets go.

    A reader in another thread can so finish on a segment that was removed or swapped meanwhile,
    and no descriptor number is reused under it.
    """

    __slots__ = ("_disk", "_fd", "path")

    def __init__(self, disk: Disk, path: Path, flags: int = os.O_RDONLY) -> None:
        self._fd = -1
        self._disk = disk
        self.path = path
        self._fd = disk.open(path, flags)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Only for a holder that knows it is the last; durability never rests on closing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                self._disk.close(fd)

    def read(self, size: int, position: int, *, may_block: bool = True) -> bytes:
        if may_block:
            return self._disk.pread(self._fd, size, position)
        return self._disk.pread_cached(self._fd, size, position)

    def read_all(self) -> bytes:
        return self.read(self._disk.stat(self.path).st_size, 0)

    def write(self, data: Buffer, position: int) -> None:
        """Write all of `data`; after an `OSError` any part of it may be in the file."""
        disk = self._disk
        size = len(data)
        written = disk.pwrite(self._fd, data, position)
        while written < size:
            # A short write says nothing; writing the rest makes the kernel name the reason.
            count = disk.pwrite(self._fd, memoryview(data)[written:], position + written)
            if count == 0:
                raise OSError(f"wrote {written} of {size} bytes and then nothing")
            written += count

    def truncate(self, size: int) -> None:
        self._disk.truncate(self._fd, size)

    def sync(self) -> None:
        self._disk.fdatasync(self._fd)

    def lock(self) -> None:
        self._disk.lock(self._fd)
