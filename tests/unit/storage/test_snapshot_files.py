"""Snapshots beside a log: found newest first, whatever became of some of them."""

import os
from pathlib import Path

from goqueue.storage.disk import Disk
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.snapshot_files import PRODUCERS, STATE, LogSnapshots


def snapshots_of(folder: Path, disk: Disk | None = None, *epochs: tuple[int, int]) -> LogSnapshots:
    known = LeaderEpochs(disk or Disk(), folder / "epochs.json")
    for epoch, start_offset in epochs:
        known.assign(epoch, start_offset)
    return LogSnapshots(disk or Disk(), folder, known)


def test_one_that_the_disk_does_not_give_back_is_passed_over(tmp_path: Path) -> None:
    class BadSector(Disk):
        def pread(self, fd: int, size: int, position: int) -> bytes:
            if os.fstat(fd).st_ino == damaged.st_ino:
                raise OSError(5, "Input/output error")
            return super().pread(fd, size, position)

    disk = BadSector()
    snapshots = snapshots_of(tmp_path, disk)
    for offset in (10, 20):
        snapshots.write(STATE, offset, b"%d" % offset, cuts=0)
    damaged = (tmp_path / f"{20:020d}.state").stat()
    assert list(snapshots.read(STATE, log_end=30)) == [(10, b"10")]


def test_those_beyond_the_log_and_the_oldest_go(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path)
    for offset in (10, 20, 30, 40):
        snapshots.write(STATE, offset, b"", cuts=0)
    found = [offset for offset, _ in snapshots.read(STATE, log_end=30)]
    assert found == [30, 20]
    assert sorted(tmp_path.iterdir()) == [tmp_path / f"{at:020d}.state" for at in (20, 30)]


def test_one_of_another_history_is_removed(tmp_path: Path) -> None:
    before = snapshots_of(tmp_path, None, (1, 0), (2, 15))
    for offset in (10, 20):
        before.write(STATE, offset, b"%d" % offset, cuts=0)
    # The log was cut at 15, and grew under another leader.
    after = snapshots_of(tmp_path, None, (1, 0), (3, 15))
    assert list(after.read(STATE, log_end=30)) == [(10, b"10")]
    assert after.offsets(STATE) == [10]


def test_one_of_another_partition_or_offset_is_passed_over(tmp_path: Path) -> None:
    """It was taken for this partition's: groups and queues of another were loaded in silence."""
    mine, others = tmp_path / "t-0", tmp_path / "t-1"
    for folder in (mine, others):
        folder.mkdir()
        for offset in (10, 20):
            snapshots_of(folder).write(STATE, offset, b"%d" % offset, cuts=0)
    (others / f"{20:020d}.state").rename(mine / f"{20:020d}.state")
    assert list(snapshots_of(mine).read(STATE, log_end=30)) == [(10, b"10")]
    (mine / f"{10:020d}.state").rename(mine / f"{20:020d}.state")
    assert list(snapshots_of(mine).read(STATE, log_end=30)) == []


def test_names_that_are_nearly_those_of_snapshots_are_left_alone(tmp_path: Path) -> None:
    for name in ("\u00b2.state", "5.state", "x.state", "9" * 20 + ".state"):
        (tmp_path / name).write_bytes(b"x")
    assert list(snapshots_of(tmp_path).read(STATE, log_end=30)) == []
    assert len(list(tmp_path.iterdir())) == 4


def test_files_of_earlier_releases_know_no_epoch(tmp_path: Path) -> None:
    (tmp_path / f"{10:020d}.state").write_bytes(b"GQSTATE1 and so on")
    snapshots = snapshots_of(tmp_path, None, (4, 0))
    assert list(snapshots.read(STATE, log_end=30)) == [(10, b"GQSTATE1 and so on")]


def test_a_writer_that_began_before_the_log_was_cut_writes_nothing(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path)
    cuts = snapshots.cuts
    assert snapshots.write(PRODUCERS, 10, b"10", cuts=cuts)
    assert snapshots.write(PRODUCERS, 20, b"20", cuts=cuts)
    snapshots.cut(15)
    assert snapshots.offsets(PRODUCERS) == [10]
    assert not snapshots.write(PRODUCERS, 20, b"20", cuts=cuts)
    assert snapshots.offsets(PRODUCERS) == [10]
    assert snapshots.write(PRODUCERS, 20, b"other", cuts=snapshots.cuts)


def test_one_above_what_is_asked_for_stays(tmp_path: Path) -> None:
    snapshots = snapshots_of(tmp_path)
    for offset in (10, 20):
        snapshots.write(STATE, offset, b"", cuts=0)
    assert [at for at, _ in snapshots.read(STATE, log_end=30, up_to=15)] == [10]
    assert snapshots.offsets(STATE) == [20, 10]
