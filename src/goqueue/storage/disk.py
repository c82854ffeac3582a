"""The one place that asks the operating system for files, so that tests can make it fail."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from goqueue.model.batch import Buffer
from goqueue.storage.owner_only import FILE_MODE, FOLDER_MODE

# What preadv answers where a file system (or a sandbox) cannot read without blocking.
_NO_NOWAIT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})


class Disk:
    """Thin methods over `os`; each may raise `OSError`. Stateless, so safe from any thread."""

    def __init__(self) -> None:
        self._reads_cached_only = hasattr(os, "RWF_NOWAIT")

    # --- files ------------------------------------------------------------------------

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return os.pread(fd, size, position)

    def pread_cached(self, fd: int, size: int, position: int) -> bytes:
        """Read only what the page cache holds: maybe less, `BlockingIOError` when nothing.

        Where the file system has no such read this is a plain `pread`.
        """
        if self._reads_cached_only:
            buffer = bytearray(size)
            try:
                count = os.preadv(fd, (buffer,), position, os.RWF_NOWAIT)
            except BlockingIOError:
                raise
            except OSError as error:
                if error.errno not in _NO_NOWAIT:
                    raise
                self._reads_cached_only = False
            else:
                return bytes(memoryview(buffer)[:count])
        return os.pread(fd, size, position)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        return os.pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def lock(self, fd: int) -> None:
        """Take the exclusive lock or raise `BlockingIOError`; it ends with the descriptor."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    # --- folders ----------------------------------------------------------------------

    def listdir(self, path: Path) -> list[str]:
        return os.listdir(path)  # noqa: PTH208  (names are wanted, not paths)

    def stat(self, path: Path) -> os.stat_result:
        return path.stat()

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        target.hardlink_to(source)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def fsync_dir(self, path: Path) -> None:
        """Make created, renamed and removed names in this folder survive a power loss."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def statvfs(self, path: Path) -> os.statvfs_result:
        return os.statvfs(path)
