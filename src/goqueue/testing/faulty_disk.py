"""A disk that fails when told to."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from goqueue.model.batch import Buffer
from goqueue.storage.disk import Disk


@dataclass(slots=True)
class Fault:
    """Makes calls of one `Disk` method raise `OSError`, for files whose path contains a text.

    The first `skip` calls go through, then `times` calls fail (None: all). A failing `pwrite`
    lets `partial_bytes` of its data reach the file first.
    """

    operation: str
    error: int
    path_contains: str = ""
    skip: int = 0
    times: int | None = None
    partial_bytes: int = 0
    calls_failed: int = field(default=0, init=False)

    def strikes(self, operation: str, path: Path) -> bool:
        if operation != self.operation or self.path_contains not in str(path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.calls_failed >= self.times:
            return False
        self.calls_failed += 1
        return True


class FaultyDisk(Disk):
    """A real disk with faults on top; `heal` takes all of them away.

    `write_limit_bytes` makes every write short, which the kernel may do at any time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.write_limit_bytes: int | None = None
        self._faults: list[Fault] = []
        self._paths: dict[int, Path] = {}

    def inject(
        self,
        operation: str,
        error: int,
        *,
        path_contains: str = "",
        skip: int = 0,
        times: int | None = None,
        partial_bytes: int = 0,
    ) -> Fault:
        fault = Fault(operation, error, path_contains, skip, times, partial_bytes)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        self._faults.clear()
        self.write_limit_bytes = None

    def open_paths(self) -> list[Path]:
        """Paths of the files open through this disk."""
        return list(self._paths.values())

    def _strike(self, operation: str, path: Path) -> None:
        for fault in self._faults:
            if fault.strikes(operation, path):
                raise OSError(fault.error, os.strerror(fault.error), str(path))

    def open(self, path: Path, flags: int) -> int:
        self._strike("open", path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        super().close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._strike("pread", self._paths[fd])
        return super().pread(fd, size, position)

    def pread_cached(self, fd: int, size: int, position: int) -> bytes:
        self._strike("pread_cached", self._paths[fd])
        return super().pread_cached(fd, size, position)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        path = self._paths[fd]
        for fault in self._faults:
            if fault.strikes("pwrite", path):
                super().pwrite(fd, memoryview(data)[: fault.partial_bytes], position)
                raise OSError(fault.error, os.strerror(fault.error), str(path))
        return super().pwrite(fd, memoryview(data)[: self.write_limit_bytes], position)

    def truncate(self, fd: int, size: int) -> None:
        self._strike("truncate", self._paths[fd])
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._strike("fdatasync", self._paths[fd])
        super().fdatasync(fd)

    def fsync_dir(self, path: Path) -> None:
        self._strike("fsync_dir", path)
        super().fsync_dir(path)

    def listdir(self, path: Path) -> list[str]:
        self._strike("listdir", path)
        return super().listdir(path)

    def mkdir(self, path: Path) -> None:
        self._strike("mkdir", path)
        super().mkdir(path)

    def rename(self, source: Path, target: Path) -> None:
        self._strike("rename", source)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._strike("unlink", path)
        super().unlink(path)
