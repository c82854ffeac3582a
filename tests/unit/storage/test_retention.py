"""What goes by age and size, when its files go, and where the log then starts."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.model.errors import OffsetOutOfRange
from tests.unit.storage.stored_log import (
    NOW_MS,
    UnsyncedDisk,
    append,
    fill,
    log_files,
    open_log,
    read_one,
    read_values,
)

HOUR_MS = 3_600_000


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=100, retention_ms=HOUR_MS)
    for age_ms in (3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS // 2, 4 * HOUR_MS, 0):
        append(log, b"x" * 50, timestamps_ms=[NOW_MS - age_ms])

    freed = log.apply_retention(NOW_MS)

    # The old record behind the young one stays: the log has no holes.
    assert (log.log_start_offset, log.log_end_offset) == (2, 5)
    assert freed == 2 * log_files(log)[0].stat().st_size
    assert len(read_values(log)) == 3


def test_the_active_segment_goes_too_when_all_in_it_is_old(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", retention_ms=HOUR_MS)
    fill(log, 3)

    log.apply_retention(NOW_MS + HOUR_MS + 1)

    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    append(log, b"next")
    assert read_values(log) == [b"next"]
    log.close()
    assert open_log(tmp_path / "p").log_start_offset == 3


def test_an_empty_log_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", retention_ms=1, retention_bytes=0)

    assert log.apply_retention(NOW_MS * 2) == 0
    assert log.segment_count == 1


def test_segments_go_when_the_rest_is_still_large_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400, retention_bytes=800)
    fill(log, 12)
    assert log.size_bytes == 12 * 118

    log.apply_retention(NOW_MS)

    # Kafka's rule: the log stays at or above the limit.
    assert log.size_bytes == 9 * 118
    assert log.log_start_offset == 3


@pytest.mark.parametrize(
    "config", [{"retention_ms": -1, "retention_bytes": -1}, {"cleanup_policy": "compact"}]
)
def test_nothing_goes_without_a_limit(tmp_path: Path, config: dict[str, Any]) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400, **config)
    fill(log, 12)

    assert log.apply_retention(NOW_MS * 2) == 0


def test_settings_can_change_while_the_log_is_open(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    fill(log, 12)
    tighter = open_log(tmp_path / "q", segment_bytes=200, retention_bytes=0).config

    log.reconfigure(tighter)
    log.apply_retention(NOW_MS)
    fill(log, 4)

    assert log.log_start_offset == 9
    assert log.segment_count == 5


def test_files_stay_for_the_delay_and_readers_can_finish(tmp_path: Path) -> None:
    log = open_log(
        tmp_path / "p", segment_bytes=400, retention_bytes=0, file_delete_delay_ms=60_000
    )
    fill(log, 12)
    oldest = log_files(log)[0]

    log.apply_retention(NOW_MS)
    log.purge_deleted(NOW_MS + 59_999)
    assert not oldest.exists()
    assert oldest.with_name(oldest.name + ".deleted").exists()
    log.purge_deleted(NOW_MS + 60_000)

    assert not list(log.path.glob("*.deleted"))
    with pytest.raises(OffsetOutOfRange):
        read_values(log, 0)


def test_records_without_timestamps_age_by_their_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=100, retention_ms=HOUR_MS)
    for _ in range(3):
        append(log, b"x" * 50, timestamps_ms=[-1])
    written_ms = log_files(log)[0].stat().st_mtime_ns // 1_000_000

    assert log.apply_retention(written_ms + HOUR_MS) == 0
    assert log.apply_retention(written_ms + 2 * HOUR_MS) > 0


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 12)

    log.advance_start(7)
    log.advance_start(7)

    assert log.log_start_offset == 7
    assert log.segment_count == 2
    for reopened in (log, open_log(tmp_path / "p", segment_bytes=400)):
        assert read_values(reopened) == values[7:]
        with pytest.raises(OffsetOutOfRange):
            read_values(reopened, 6)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(6)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(13)


def test_a_log_emptied_by_deletion_goes_on_at_its_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    fill(log, 5)
    log.advance_start(5)

    log = open_log(tmp_path / "p")
    append(log, b"next")

    assert (log.log_start_offset, log.log_end_offset) == (5, 6)
    assert read_values(log) == [b"next"]


def test_a_log_whose_remains_lie_below_its_start_begins_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    fill(log, 5)
    log.advance_start(4)
    log_files(log)[0].write_bytes(b"")

    log = open_log(tmp_path / "p")

    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    append(log, b"next")
    assert read_values(open_log(tmp_path / "p")) == [b"next"]


@pytest.mark.parametrize("offset", [0, 1, 5, 6, 11, 12, 13])
def test_truncation_cuts_the_end(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 12)
    log.flush()
    read_values(log)

    log.truncate_to(offset)

    kept = min(offset, 12)
    assert log.log_end_offset == kept
    assert log.flushed_offset <= kept
    append(log, b"new")
    for reopened in (log, open_log(tmp_path / "p", segment_bytes=400)):
        assert read_values(reopened) == [*values[:kept], b"new"]


@pytest.mark.parametrize("is_early", [True, False])
def test_truncation_is_no_damage_to_who_looks_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    """A reader in another thread met the end that was being cut off."""
    log = open_log(tmp_path / "p")
    values = fill(log, 6)
    log.flush()
    [segment] = log._segments.all
    survey = segment._survey

    def cut_meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(segment, "_survey", survey)
        found = None if is_early else survey(*args)
        log.truncate_to(4)
        return survey(*args) if found is None else found

    monkeypatch.setattr(segment, "_survey", cut_meanwhile)
    segment.inspect()

    assert log.damage == ()
    append(log, b"new")
    assert read_values(log) == [*values[:4], b"new"]


def test_truncation_of_a_long_segment_reads_little_of_it(tmp_path: Path) -> None:
    class CountingDisk(UnsyncedDisk):
        bytes_read = 0

        def pread(self, fd: int, length: int, position: int) -> bytes:
            data = super().pread(fd, length, position)
            self.bytes_read += len(data)
            return data

    disk = CountingDisk()
    log = open_log(tmp_path / "p", disk=disk)
    values = fill(log, 2_000)
    append(log, b"late", timestamps_ms=[NOW_MS + 5_000])
    append(log, b"last", timestamps_ms=[NOW_MS + 9_000])
    log.flush()
    disk.bytes_read = 0

    log.truncate_to(2_001)

    assert disk.bytes_read < 32_768 < log.size_bytes / 4
    for each in (log, open_log(tmp_path / "p", clean=True), open_log(tmp_path / "p")):
        assert (each.log_end_offset, each.damage) == (2_001, ())
        assert [read_one(each, at).value for at in (0, 700, 1_999)] == [
            values[at] for at in (0, 700, 1_999)
        ]
        [segment] = each._segments.all
        assert segment.max_timestamp_ms() == NOW_MS + 5_000
    append(log, b"new")
    assert read_values(log, 2_000) == [b"late", b"new"]


def test_truncation_inside_a_batch_removes_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a")
    append(log, b"b", b"c", b"d")

    log.truncate_to(2)

    assert log.log_end_offset == 1


def test_truncation_below_the_start_begins_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    fill(log, 12)
    log.advance_start(8)

    log.truncate_to(4)
    append(log, b"new")

    for reopened in (log, open_log(tmp_path / "p")):
        assert (reopened.log_start_offset, reopened.log_end_offset) == (4, 5)
        assert read_values(reopened) == [b"new"]


def test_truncation_is_recovered_from_even_if_what_follows_was_not_flushed(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    fill(log, 30)
    log.flush()
    log.truncate_to(4)
    values = fill(log, 10)
    third = log_files(log)[2]
    third.write_bytes(third.read_bytes()[:-1])

    log = open_log(tmp_path / "p", segment_bytes=400)

    assert [damage.path for damage in log.damage] == [third]
    assert len(values) == 10


def test_truncation_forgets_later_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    for epoch in (1, 1, 2, 5):
        append(log, b"x", epoch=epoch)

    log.truncate_to(2)

    assert list(log.epochs.entries) == [(1, 0)]
    append(log, b"x", epoch=3)
    assert list(log.epochs.entries) == [(1, 0), (3, 2)]


def test_segments_wait_for_the_archive(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=100, retention_ms=HOUR_MS)
    for _ in range(5):
        append(log, b"x" * 50, timestamps_ms=[NOW_MS - 2 * HOUR_MS])

    log.apply_retention(NOW_MS, archived_offset=3)
    assert (log.log_start_offset, log.unarchived_deleted_bytes) == (3, 0)

    log.apply_retention(NOW_MS, archived_offset=3)
    assert log.log_start_offset == 3

    log.apply_retention(NOW_MS, archived_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_waiting_for_the_archive_ends_at_the_size_limit(tmp_path: Path) -> None:
    log = open_log(
        tmp_path / "p", segment_bytes=100, retention_ms=HOUR_MS, retention_archive_max_bytes=300
    )
    for age_ms in (2 * HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS, 0):
        append(log, b"x" * 50, timestamps_ms=[NOW_MS - age_ms])
    assert log.size_bytes == 4 * 118

    log.apply_retention(NOW_MS, archived_offset=0)

    # 472 bytes are too many, 354 as well, 236 may wait.
    assert log.log_start_offset == 2
    assert log.unarchived_deleted_bytes == 2 * 118


def test_nothing_young_goes_at_the_archive_limit(tmp_path: Path) -> None:
    log = open_log(
        tmp_path / "p", segment_bytes=100, retention_ms=HOUR_MS, retention_archive_max_bytes=0
    )
    append(log, b"x" * 50, timestamps_ms=[NOW_MS - 2 * HOUR_MS])
    append(log, b"x" * 50, timestamps_ms=[NOW_MS])
    append(log, b"x" * 50, timestamps_ms=[NOW_MS])

    log.apply_retention(NOW_MS, archived_offset=0)

    assert log.log_start_offset == 1
