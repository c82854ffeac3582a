"""`goqueue` on a disk that is full while a file says so: `<data dir>.full`.

A broker cannot be given a small disk without the rights of an administrator, so its writes fail
where they would.
"""

import errno
import os
import runpy
import sys
from pathlib import Path

from goqueue.model.batch import Buffer
from goqueue.storage.disk import Disk
from goqueue.testing import ServerProcess


class FullDiskServer(ServerProcess):
    PROGRAM = (__file__,)


def flag_of(data_dir: Path) -> Path:
    return data_dir.with_name(f"{data_dir.name}.full")


def _limit(flag: Path) -> None:
    write = Disk.pwrite

    def pwrite(self: Disk, fd: int, data: Buffer, position: int) -> int:
        if flag.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, fd, data, position)

    Disk.pwrite = pwrite  # type: ignore[method-assign]


if __name__ == "__main__":
    _limit(flag_of(Path(sys.argv[sys.argv.index("--data-dir") + 1])))
    # As `python -m goqueue` would find it, without this folder in the way.
    sys.path.pop(0)
    runpy.run_module("goqueue", run_name="__main__", alter_sys=True)
