"""A disk that is full, fails or lies: a clear error, nothing half there, nothing acknowledged."""

import errno
from pathlib import Path

import pytest

from goqueue.model.errors import OffsetOutOfRange, PartitionOffline
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.storage.stored_log import (
    NOW_MS,
    append,
    fill,
    log_files,
    open_log,
    read_values,
)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.mark.parametrize("partial_bytes", [0, 1, 60, 100])
def test_a_full_disk_refuses_the_append_and_recovers_with_space(
    tmp_path: Path, disk: FaultyDisk, partial_bytes: int
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    values = fill(log, 3)
    size = log.size_bytes
    disk.inject("pwrite", errno.ENOSPC, path_contains=".log", partial_bytes=partial_bytes)

    with pytest.raises(PartitionOffline, match=r"orders-3: append to .*\.log failed.*No space"):
        append(log, b"x" * 100)

    assert log.offline_reason is None
    assert log.append_failures == 1
    assert log.log_end_offset == 3
    assert log_files(log)[0].stat().st_size == log.size_bytes == size
    assert read_values(log) == values
    disk.heal()
    append(log, b"fits again")
    assert log.append_failures == 0
    assert read_values(log) == [*values, b"fits again"]
    assert read_values(open_log(tmp_path / "p")) == [*values, b"fits again"]


def test_a_failed_write_takes_the_log_offline_with_what_it_had(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    values = fill(log, 3)
    disk.inject("pwrite", errno.EIO, path_contains=".log", partial_bytes=70, times=1)

    with pytest.raises(PartitionOffline, match="Input/output error"):
        append(log, b"lost")
    with pytest.raises(PartitionOffline, match="Input/output error"):
        append(log, b"refused")
    with pytest.raises(PartitionOffline, match="Input/output error"):
        log.flush()

    assert read_values(open_log(tmp_path / "p")) == values


def test_a_write_that_cannot_be_cut_back_keeps_the_log_offline(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    values = fill(log, 3)
    disk.inject("pwrite", errno.ENOSPC, path_contains=".log", partial_bytes=70)
    disk.inject("truncate", errno.EIO)

    with pytest.raises(PartitionOffline, match="cannot be cut off"):
        append(log, b"x" * 100)
    disk.heal()
    with pytest.raises(PartitionOffline, match="cannot be cut off"):
        append(log, b"refused")

    assert read_values(open_log(tmp_path / "p")) == values


def test_short_writes_are_completed(tmp_path: Path, disk: FaultyDisk) -> None:
    disk.write_limit_bytes = 7
    log = open_log(tmp_path / "p", disk=disk)

    values = fill(log, 5)

    assert read_values(log) == values
    assert read_values(open_log(tmp_path / "p")) == values


def test_a_write_of_nothing_is_a_failure_not_a_loop(tmp_path: Path, disk: FaultyDisk) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    disk.write_limit_bytes = 0

    with pytest.raises(PartitionOffline, match="then nothing"):
        append(log, b"x")


@pytest.mark.parametrize("operation", ["fdatasync", "fsync_dir"])
def test_a_failed_fsync_is_never_tried_again(
    tmp_path: Path, disk: FaultyDisk, operation: str
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    append(log, b"a")
    fault = disk.inject(operation, errno.EIO, times=1)

    with pytest.raises(PartitionOffline, match="fsync failed"):
        log.flush()
    for refused in (log.flush, log.close, lambda: append(log, b"b"), lambda: read_values(log)):
        with pytest.raises(PartitionOffline, match="fsync failed"):
            refused()

    assert log.flushed_offset == 0
    assert fault.calls_failed == 1


@pytest.mark.parametrize("may_block", [True, False])
def test_an_unreadable_file_takes_the_log_offline(
    tmp_path: Path, disk: FaultyDisk, may_block: bool
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    append(log, b"a")
    disk.inject("pread" if may_block else "pread_cached", errno.EIO, path_contains=".log")

    with pytest.raises(PartitionOffline, match="orders-3: read at offset 0 failed"):
        log.read(0, 100, up_to=1, at_least_one=True, may_block=may_block)

    assert log.offline_reason is not None


def test_running_out_of_descriptors_passes(tmp_path: Path, disk: FaultyDisk) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 10)
    log.close()
    log = open_log(tmp_path / "p", disk=disk, clean=True)
    disk.inject("open", errno.EMFILE)

    with pytest.raises(PartitionOffline, match="Too many open files"):
        read_values(log)
    with pytest.raises(PartitionOffline, match="Too many open files"):
        append(log, b"x")
    disk.heal()

    assert log.offline_reason is None
    assert read_values(log) == values


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_roll_on_a_full_disk_leaves_no_trace(
    tmp_path: Path, disk: FaultyDisk, suffix: str
) -> None:
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400)
    values = fill(log, 3)
    disk.inject("open", errno.ENOSPC, path_contains=f"{3:020d}{suffix}")

    with pytest.raises(PartitionOffline, match="No space"):
        append(log, b"x" * 60)
    assert log.segment_count == len(log_files(log)) == 1
    disk.heal()
    append(log, b"x" * 60)

    assert log.segment_count == 2
    assert read_values(log) == [*values, b"x" * 60]


def test_indexes_that_cannot_be_written_cost_nothing_but_a_rebuild(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    for suffix in (".index", ".timeindex"):
        disk.inject("pwrite", errno.ENOSPC, path_contains=suffix)
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400)

    values = fill(log, 20)
    log.close()

    assert read_values(open_log(tmp_path / "p", clean=True)) == values


@pytest.mark.parametrize("operation", ["mkdir", "listdir", "open"])
def test_a_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, disk: FaultyDisk, operation: str
) -> None:
    disk.inject(operation, errno.EACCES)

    with pytest.raises(PartitionOffline, match=r"orders-3: cannot be opened: .*Permission denied"):
        open_log(tmp_path / "p", disk=disk)


def test_a_recovery_that_cannot_cut_the_tail_is_refused(tmp_path: Path, disk: FaultyDisk) -> None:
    log = open_log(tmp_path / "p")
    values = fill(log, 3)
    (file,) = log_files(log)
    file.write_bytes(file.read_bytes() + b"torn")
    disk.inject("truncate", errno.EIO)

    with pytest.raises(PartitionOffline, match="cannot be opened"):
        open_log(tmp_path / "p", disk=disk)
    disk.heal()

    assert read_values(open_log(tmp_path / "p", disk=disk)) == values


def test_a_failed_log_start_is_not_moved(tmp_path: Path, disk: FaultyDisk) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    values = fill(log, 3)
    disk.inject("rename", errno.EIO, path_contains="checkpoint")

    with pytest.raises(PartitionOffline, match="deleting records failed"):
        log.advance_start(2)

    assert read_values(open_log(tmp_path / "p")) == values


def test_epochs_that_cannot_be_saved_are_found_in_the_batches(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk)
    append(log, b"a", epoch=1)
    log.flush()
    append(log, b"b", epoch=3)
    disk.inject("fdatasync", errno.EIO, path_contains="leader-epochs", times=1)
    assert log.flush() == 2

    log = open_log(tmp_path / "p")

    assert log.epochs.entries == ((1, 0), (3, 1))
    assert read_values(log) == [b"a", b"b"]


def test_retention_that_fails_half_way_keeps_the_rest(tmp_path: Path, disk: FaultyDisk) -> None:
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400, retention_bytes=400)
    values = fill(log, 12)
    disk.inject("rename", errno.EIO, path_contains=f"{3:020d}")

    with pytest.raises(PartitionOffline, match="retention failed"):
        log.apply_retention(0)

    assert read_values(open_log(tmp_path / "p")) == values[3:]


def test_a_removed_segment_that_cannot_be_deleted_is_tried_again(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400)
    fill(log, 6)
    log.advance_start(3)
    disk.inject("unlink", errno.EIO, times=1)

    log.purge_deleted(0)
    assert list(log.path.glob("*.deleted"))
    log.purge_deleted(0)

    assert not list(log.path.glob("*.deleted"))
    with pytest.raises(OffsetOutOfRange):
        read_values(log, 0)


def test_a_checkpoint_that_cannot_be_written_only_costs_a_longer_recovery(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400)
    values = fill(log, 10)
    disk.inject("open", errno.ENOSPC, path_contains="checkpoint")

    assert log.flush() == 10

    assert log.offline_reason is None
    assert read_values(open_log(tmp_path / "p")) == values


def test_retention_on_a_full_disk_does_not_take_the_log_offline(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = open_log(tmp_path / "p", disk=disk, retention_ms=1)
    values = fill(log, 3)
    fault = disk.inject("open", errno.ENOSPC, path_contains=f"{3:020d}")

    with pytest.raises(PartitionOffline, match="retention failed"):
        log.apply_retention(NOW_MS + 1000)

    assert fault.calls_failed == 1
    assert log.offline_reason is None
    assert read_values(log) == values
    disk.heal()
    assert log.apply_retention(NOW_MS + 1000) > 0


def test_a_roll_never_touches_a_file_that_is_already_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 3)
    stranger = log.path / f"{3:020d}.log"
    stranger.write_bytes(b"not ours")

    with pytest.raises(PartitionOffline, match="File exists"):
        append(log, b"x" * 60)

    assert stranger.read_bytes() == b"not ours"
    assert read_values(open_log(tmp_path / "p")) == values
