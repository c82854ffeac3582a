"""The power goes at every single step of a compaction: nothing is lost, nothing comes twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.control import MarkerType
from goqueue.storage.aborted import AbortedTransactions
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from tests.crash.power_cut_disk import PowerCut, PowerCutDisk
from tests.unit.storage.keyed_log import (
    Keyed,
    append_keyed,
    append_marker,
    close_segment,
    compact_log,
    copy,
    entries,
    headers_of,
    make_plan,
    take_in,
)
from tests.unit.storage.stored_log import NOW_MS, UnsyncedDisk, open_log, read_bytes

SETTINGS: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": 400,
    "delete_retention_ms": 0,
    "index_interval_bytes": 100,
}
ABORTED = AbortedTransaction(5, 1, 3, 4)


def build(folder: Path) -> None:
    """A log that was compacted once, and has another run before it that removes much."""
    log = open_log(folder, **SETTINGS)
    append_keyed(log, Keyed(b"k0", b"first"))
    append_keyed(log, Keyed(b"k1", b"void"), producer=(5, 0, 0), is_transactional=True)
    append_keyed(log, Keyed(b"k9", None))
    append_marker(log, MarkerType.ABORT, producer_id=5)
    close_segment(log)
    aborted = AbortedTransactions(UnsyncedDisk(), folder)
    aborted.append(ABORTED)
    aborted.sync()
    compact_log(log, aborted=[ABORTED])
    log.purge_deleted(NOW_MS)
    for number in range(30):
        append_keyed(log, Keyed(b"k%d" % (number % 6), b"%d" % number * 20), compression="lz4")
    close_segment(log)
    append_keyed(log, Keyed(b"tail", b"in the active segment"))
    log.close()


def run(folder: Path, disk: Disk) -> PartitionLog:
    """What the broker does, in its order."""
    log = open_log(folder, disk=disk, **SETTINGS)
    aborted = AbortedTransactions(disk, folder)
    plan = make_plan(log, aborted=[ABORTED] if len(aborted) else [])
    compacted = copy(plan, disk)
    aborted.discard(compacted.removed_markers)
    take_in(log, plan, compacted)
    log.purge_deleted(NOW_MS)
    return log


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_a_power_cut_at_any_step_leaves_the_log_as_before_or_as_after(
    tmp_path: Path, is_forgetful: bool
) -> None:
    original = tmp_path / "p"
    build(original)
    before = read_bytes(open_log(original, **SETTINGS))
    work = tmp_path / "work"
    shutil.copytree(original, work / "p")
    whole = PowerCutDisk(work / "backups")
    done = run(work / "p", whole)
    after = read_bytes(done)
    left = entries(done)
    assert len(left) == 7
    assert not any(header.is_control for header in headers_of(done))
    outcomes = set()
    for cut_at in range(1, whole.steps + 1):
        shutil.rmtree(work)
        shutil.copytree(original, work / "p")
        disk = PowerCutDisk(work / "backups", cut_at)
        with pytest.raises(PowerCut):
            run(work / "p", disk)
        if is_forgetful:
            disk.forget_unsynced()
        log = open_log(work / "p", clean=False, **SETTINGS)
        found = read_bytes(log)
        assert found in (before, after), f"step {cut_at}"
        outcomes.add(found)
        assert not log.damage
        assert not list((work / "p").glob("*.cleaned"))
        assert not list((work / "p").glob("*.deleted"))
        # While the marker is there its transaction may be listed; without it, it must not be.
        aborted = AbortedTransactions(UnsyncedDisk(), work / "p")
        has_marker = any(header.is_control for header in headers_of(log))
        assert has_marker or not len(aborted)
        # Appends go on, and so does the next run.
        append_keyed(log, Keyed(b"tail", b"again"))
        assert entries(run(work / "p", UnsyncedDisk()))[:7] == left
    assert outcomes == {before, after}
    assert whole.steps > 50


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_a_power_cut_while_a_start_completes_a_swap_is_made_up_for_by_the_next(
    tmp_path: Path, is_forgetful: bool
) -> None:
    original = tmp_path / "p"
    build(original)
    log = open_log(original, **SETTINGS)
    plan = make_plan(log)
    compacted = copy(plan)
    assert log.compaction.accept(plan, compacted)
    assert log.compaction.commit(compacted, log.config, now_ms=NOW_MS)
    assert log.compaction.rename_next()
    log.compaction.show_next(due_ms=NOW_MS)
    # The next one has its name already.
    assert log.compaction.rename_next()
    # Here the broker was killed.
    work = tmp_path / "work"
    shutil.copytree(original, work / "p")
    whole = PowerCutDisk(work / "backups")
    after = read_bytes(open_log(work / "p", disk=whole, **SETTINGS))
    for cut_at in range(1, whole.steps + 1):
        shutil.rmtree(work)
        shutil.copytree(original, work / "p")
        disk = PowerCutDisk(work / "backups", cut_at)
        with pytest.raises(PowerCut):
            open_log(work / "p", disk=disk, **SETTINGS)
        if is_forgetful:
            disk.forget_unsynced()
        log = open_log(work / "p", **SETTINGS)
        assert read_bytes(log) == after
        assert not log.damage
        assert log.compaction.first_dirty_offset == compacted.end_offset
