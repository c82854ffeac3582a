"""Copies take the places of segments: beside retention and truncation, and when a disk fails."""

import errno
from pathlib import Path
from typing import Any

import pytest

from goqueue.storage.compaction.copying import DamagedSegment, compact
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.storage.keyed_log import (
    DAY_MS,
    Keyed,
    append_keyed,
    close_segment,
    compact_log,
    copy,
    entries,
    make_plan,
    swap_all,
    take_in,
)
from tests.unit.storage.stored_log import (
    NOW_MS,
    UnsyncedDisk,
    flip_bit,
    log_files,
    open_log,
)

COMPACT: dict[str, Any] = {"cleanup_policy": "compact"}
ENDLESS = 1 << 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "p"


# --- beside retention ---------------------------------------------------------------------


def test_retention_removes_old_compacted_segments(folder: Path) -> None:
    log = open_log(folder, cleanup_policy="compact,delete", segment_bytes=150, retention_ms=1000)
    for number in range(6):
        append_keyed(log, Keyed(b"%d" % number, b"v" * 60, NOW_MS + number * 1000))
    close_segment(log)
    compact_log(log)
    log.apply_retention(NOW_MS + 4500)
    assert [offset for offset, _, _ in entries(log)] == [4, 5]


def test_segments_that_retention_took_during_the_run_stay_gone(folder: Path) -> None:
    settings: dict[str, Any] = {
        "cleanup_policy": "compact,delete",
        "segment_bytes": 150,
        "retention_ms": 1000,
    }
    log = open_log(folder, **settings)
    for number in range(6):
        append_keyed(log, Keyed(b"%d" % number, b"v" * 60, NOW_MS + number * 1000))
    close_segment(log)
    plan = make_plan(log)
    compacted = copy(plan)
    log.apply_retention(NOW_MS + 4500)
    take_in(log, plan, compacted)
    assert [offset for offset, _, _ in entries(log)] == [4, 5]
    assert entries(open_log(folder, **settings)) == entries(log)


def test_a_run_is_for_nothing_when_retention_took_a_part_of_a_copy(folder: Path) -> None:
    log = open_log(folder, cleanup_policy="compact,delete", retention_ms=1000)
    for number in range(3):
        append_keyed(log, Keyed(b"%d" % number, b"v", NOW_MS + number * 1000))
        close_segment(log)
    plan = make_plan(log)
    compacted = copy(plan)
    log.apply_retention(NOW_MS + 1500)
    assert not log.compaction.accept(plan, compacted)
    log.compaction.discard(plan)
    assert not list(folder.glob("*.cleaned"))
    assert [offset for offset, _, _ in entries(log)] == [1, 2]


def test_deleting_records_during_a_swap_is_made_up_for(folder: Path) -> None:
    log = open_log(folder, **COMPACT, segment_bytes=150)
    for number in range(6):
        append_keyed(log, Keyed(b"%d" % number, b"v" * 60))
    close_segment(log)
    plan = make_plan(log)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    assert log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    log.advance_start(4)
    assert log.apply_retention(NOW_MS) == 0
    swap_all(log)
    log.compaction.finish()
    assert log.apply_retention(NOW_MS) > 0
    assert [offset for offset, _, _ in entries(log)] == [4, 5]


def test_cutting_the_log_during_a_run_ends_the_run(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(4):
        append_keyed(log, Keyed(b"a", b"%d" % number))
        close_segment(log)
    plan = make_plan(log)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    log.truncate_to(2)
    assert not log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    assert [offset for offset, _, _ in entries(log)] == [0, 1]


def test_cutting_the_log_during_a_swap_completes_the_swap_first(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(4):
        append_keyed(log, Keyed(b"%d" % (number % 3), b"%d" % number))
        close_segment(log)
    plan = make_plan(log)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    assert log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    log.truncate_to(2)
    assert [offset for offset, _, _ in entries(log)] == [1]
    assert entries(open_log(folder, **COMPACT)) == entries(log)


# --- trouble ------------------------------------------------------------------------------


def test_readers_of_replaced_segments_finish(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"))
    append_keyed(log, Keyed(b"a", b"2"))
    close_segment(log)
    opened, unopened = log._segments.all[0], log._segments.all[0]
    file = opened.reader().file
    before = file.read(1000, 0)
    compact_log(log, now_ms=NOW_MS)
    assert file.read(1000, 0) == before
    # Also one that had found the segment but not opened its file yet.
    assert unopened.reader().file.read(1000, 0) == before
    log.purge_deleted(NOW_MS)
    assert not list(folder.glob("*.deleted"))
    assert file.read(1000, 0) == before


def test_a_damaged_segment_is_not_copied(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"))
    append_keyed(log, Keyed(b"a", b"2"))
    close_segment(log)
    flip_bit(log_files(log)[0], 65)
    with pytest.raises(DamagedSegment, match="at byte 0"):
        copy(make_plan(log))


def test_a_flipped_base_offset_or_epoch_is_not_copied(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"))
    close_segment(log)
    plan = make_plan(log)
    for position in (7, 15):
        flip_bit(log_files(log)[0], position)
        with pytest.raises(DamagedSegment, match="expected 0 and 0"):
            copy(plan)
        flip_bit(log_files(log)[0], position)
        log.compaction.discard(plan)


def test_a_full_disk_leaves_everything_as_it_was(folder: Path) -> None:
    disk = FaultyDisk()
    log = open_log(folder, disk=disk, **COMPACT)
    for number in range(10):
        append_keyed(log, Keyed(b"a", b"%d" % number))
    close_segment(log)
    before = entries(log)
    plan = make_plan(log)
    disk.inject("pwrite", errno.ENOSPC, path_contains=".cleaned")
    with pytest.raises(OSError, match="No space"):
        compact(plan, disk, lambda _: None)
    disk.heal()
    log.compaction.discard(plan)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    disk.inject("pwrite", errno.ENOSPC, path_contains="compaction.json")
    with pytest.raises(OSError, match="No space"):
        log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    disk.heal()
    log.compaction.discard(plan)
    assert not log.compaction.is_swapping
    assert entries(log) == before
    assert not list(folder.glob("*.cleaned"))
    compact_log(log)
    assert entries(log) == before[-1:]


def test_a_swap_that_fails_half_way_is_taken_up_again(folder: Path) -> None:
    disk = FaultyDisk()
    log = open_log(folder, disk=disk, **COMPACT, segment_bytes=150)
    for number in range(9):
        append_keyed(log, Keyed(b"%d" % (number % 5), b"%d" % number + b"." * 60))
    close_segment(log)
    expected = entries(log)[4:]
    plan = make_plan(log)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    assert log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    for skip in (1, 2, 0, 3, 1, 5):
        disk.inject("rename", errno.EIO, skip=skip)
        with pytest.raises(OSError, match="Input/output"):
            swap_all(log)
        disk.heal()
        assert entries(log)[-5:] == expected
    swap_all(log)
    disk.inject("fsync_dir", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.compaction.finish()
    disk.heal()
    assert log.compaction.is_swapping
    log.compaction.finish()
    assert entries(log) == expected


def test_a_damaged_history_means_all_is_dirty(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"), Keyed(b"a", None))
    close_segment(log)
    compact_log(log)
    log.close()
    flip_bit(folder / "compaction.json", 12)
    reopened = open_log(folder, clean=True, **COMPACT)
    assert reopened.compaction.first_dirty_offset == 0
    compact_log(reopened, now_ms=NOW_MS + 2 * DAY_MS)
    assert entries(reopened) == [(1, b"a", None)]


def test_copies_of_an_unfinished_run_are_removed_on_opening(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"), Keyed(b"a", b"2"))
    close_segment(log)
    before = entries(log)
    copy(make_plan(log), UnsyncedDisk())
    assert list(folder.glob("*.cleaned"))
    assert entries(open_log(folder, **COMPACT)) == before
    assert not list(folder.glob("*.cleaned"))
