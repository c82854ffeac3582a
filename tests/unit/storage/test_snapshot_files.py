"""Snapshots beside a log: found newest first, whatever became of some of them."""

import os
from pathlib import Path

from goqueue.storage.disk import Disk
from goqueue.storage.snapshot_files import STATE, read_snapshots, write_snapshot


def test_one_that_the_disk_does_not_give_back_is_passed_over(tmp_path: Path) -> None:
    class BadSector(Disk):
        def pread(self, fd: int, size: int, position: int) -> bytes:
            if os.fstat(fd).st_ino == damaged.st_ino:
                raise OSError(5, "Input/output error")
            return super().pread(fd, size, position)

    disk = BadSector()
    for offset in (10, 20):
        write_snapshot(disk, tmp_path, STATE, offset, b"%d" % offset)
    damaged = (tmp_path / f"{20:020d}.state").stat()
    assert list(read_snapshots(disk, tmp_path, STATE, log_end=30)) == [(10, b"10")]


def test_those_beyond_the_log_and_the_oldest_go(tmp_path: Path) -> None:
    disk = Disk()
    for offset in (10, 20, 30, 40):
        write_snapshot(disk, tmp_path, STATE, offset, b"")
    found = [offset for offset, _ in read_snapshots(disk, tmp_path, STATE, log_end=30)]
    assert found == [30, 20]
    assert sorted(tmp_path.iterdir()) == [tmp_path / f"{at:020d}.state" for at in (20, 30)]
