"""Append, read back, roll, reopen."""

from pathlib import Path
from uuid import UUID

import pytest

from goqueue.model.batch import read_header
from goqueue.model.errors import OffsetOutOfRange, PartitionOffline
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.storage.stored_log import (
    EVERYTHING,
    NOW_MS,
    UnsyncedDisk,
    append,
    fill,
    log_files,
    make_batch,
    open_log,
    read_bytes,
    read_one,
    read_values,
)


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")

    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (0, 0, 0)
    assert log.size_bytes == 0
    assert log.read(0, 100, up_to=10, at_least_one=True, may_block=False) == (b"", 0)


def test_batches_come_back_byte_for_byte(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")

    written = append(log, b"a", b"b") + append(log, b"c") + append(log, b"d", b"e", b"f")

    assert log.log_end_offset == 6
    assert log.size_bytes == len(written)
    assert read_bytes(log) == written


def test_what_lies_from_an_offset_on_is_known_about(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=1_000)
    for number in range(40):
        append(log, b"%02d" % number + b"x" * 100)

    assert log.segment_count > 3
    each = log.size_bytes // 40
    assert [log.bytes_from(offset) for offset in (0, 20, 39)] == [40 * each, 20 * each, each]
    assert log.bytes_from(40) == log.bytes_from(100) == 0


def test_one_append_can_hold_several_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    first, second = make_batch([b"a", b"b"], 0), make_batch([b"c"], 2)

    log.append(
        first + second,
        [(0, read_header(first)), (len(first), read_header(second))],
        now_ms=NOW_MS,
    )

    assert read_values(log) == [b"a", b"b", b"c"]


def test_offsets_must_follow_on(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    batch = make_batch([b"a"], 7)

    with pytest.raises(ValueError, match="append of offset 7 at log end 0"):
        log.append(batch, [(0, read_header(batch))], now_ms=NOW_MS)


def test_a_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a")
    second = append(log, b"b", b"c", b"d")

    read = log.read(2, EVERYTHING, up_to=4, at_least_one=False, may_block=False)

    assert read == (bytes(second), 4)


def test_a_read_ends_before_up_to(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    first = append(log, b"a")
    append(log, b"b", b"c")

    for up_to in (1, 2):
        read = log.read(0, EVERYTHING, up_to=up_to, at_least_one=True, may_block=False)
        assert read == (bytes(first), 1)


def test_max_bytes_holds_whole_batches_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    first, second = append(log, b"a" * 100), append(log, b"b" * 300)
    size = len(first) + len(second)

    def read(max_bytes: int, *, at_least_one: bool) -> bytes:
        return log.read(0, max_bytes, up_to=2, at_least_one=at_least_one, may_block=False).data

    assert read(size, at_least_one=False) == first + second
    assert read(size - 1, at_least_one=False) == first
    assert read(len(first) - 1, at_least_one=False) == b""
    assert read(len(first) - 1, at_least_one=True) == first
    assert read(0, at_least_one=True) == first
    assert read(0, at_least_one=False) == b""


@pytest.mark.parametrize("offset", [-1, 4])
def test_offsets_outside_the_log_are_refused(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a", b"b", b"c")

    with pytest.raises(OffsetOutOfRange, match=rf"orders-3: offset {offset} .* 0 to 3"):
        log.read(offset, 100, up_to=3, at_least_one=True, may_block=False)


def test_segments_are_named_by_their_base_offset_and_roll_by_size(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)

    values = fill(log, 10)

    assert [path.name for path in log_files(log)] == [
        "00000000000000000000.log",
        "00000000000000000003.log",
        "00000000000000000006.log",
        "00000000000000000009.log",
    ]
    assert all(path.stat().st_size <= 400 for path in log_files(log))
    assert all(
        path.with_suffix(s).exists() for path in log_files(log) for s in (".index", ".timeindex")
    )
    assert read_values(log) == values


def test_a_batch_larger_than_a_segment_gets_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=100)

    for value in (b"a" * 500, b"b" * 500):
        append(log, value)

    assert log.segment_count == 2
    assert read_values(log) == [b"a" * 500, b"b" * 500]


def test_segments_roll_by_the_age_of_their_first_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_ms=1000)

    for now_ms in (NOW_MS + 5000, NOW_MS + 5999, NOW_MS + 6000):
        append(log, b"x", now_ms=now_ms)

    assert [path.name[:20] for path in log_files(log)] == [f"{0:020d}", f"{2:020d}"]


def test_segments_roll_when_record_time_has_moved_on(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_ms=1000)

    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        append(log, b"x", timestamps_ms=[timestamp_ms])

    assert log.segment_count == 2


def test_segments_roll_when_their_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_index_bytes=32, index_interval_bytes=0)

    fill(log, 7)

    assert log.segment_count == 3
    assert all(path.stat().st_size <= 32 + 32 for path in log.path.glob("*.timeindex"))


def test_every_offset_is_found_whatever_the_index_interval(tmp_path: Path) -> None:
    for interval in (0, 200, 4096):
        log = open_log(tmp_path / str(interval), segment_bytes=3000, index_interval_bytes=interval)
        values = fill(log, 100)
        for offset, value in enumerate(values):
            assert read_one(log, offset).value == value


@pytest.mark.parametrize("clean", [True, False])
def test_a_closed_log_opens_with_everything(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "p", segment_bytes=1000)
    values = fill(log, 50)
    log.close()

    log = open_log(tmp_path / "p", segment_bytes=1000, clean=clean)

    assert log.log_end_offset == 50
    assert read_values(log) == values
    append(log, b"more")
    assert read_values(log, 49) == [values[49], b"more"]
    assert log.damage == ()


class ReadCountingDisk(UnsyncedDisk):
    def __init__(self) -> None:
        super().__init__()
        self.opened_logs: list[Path] = []

    def open(self, path: Path, flags: int) -> int:
        if path.suffix == ".log":
            self.opened_logs.append(path)
        return super().open(path, flags)


def test_a_clean_start_looks_into_the_last_log_file_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=1000)
    fill(log, 50)
    log.close()
    disk = ReadCountingDisk()

    log = open_log(tmp_path / "p", disk=disk, clean=True)

    assert log.log_end_offset == 50
    assert disk.opened_logs == log_files(log)[-1:]


def test_an_unclean_start_reads_only_what_was_not_flushed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=1000)
    fill(log, 50)
    log.flush()
    fill(log, 50)
    seen: list[int] = []

    log = open_log(
        tmp_path / "p",
        segment_bytes=1000,
        on_recovered=lambda header, _position: seen.append(header.base_offset),
    )

    # Flushed segments are left alone; the one that was active then and later ones are read.
    assert 40 < seen[0] <= 50
    assert seen == list(range(seen[0], 100))
    assert log.log_end_offset == 100


def test_a_closed_log_refuses_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a")
    log.close()

    with pytest.raises(PartitionOffline, match="closed"):
        append(log, b"b")
    with pytest.raises(PartitionOffline, match="closed"):
        read_values(log)


def test_closing_lets_go_of_every_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=500)
    fill(log, 100)
    read_values(log)

    log.close()

    assert disk.open_paths() == []


def test_open_files_stay_few_with_many_segments(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=100)
    fill(log, 200)

    log.flush()
    read_values(log)

    assert log.segment_count == 200
    assert len(disk.open_paths()) <= 65


def test_headers_can_be_replayed_from_any_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=1000)
    for number in range(30):
        append(log, b"x" * number, b"y")

    for offset in (0, 1, 7, 30, 59, 60):
        bases = [header.base_offset for header in log.headers_from(offset)]
        assert bases == list(range(offset - offset % 2, 60, 2))


def test_a_folder_of_another_topic_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path / "p").close()

    with pytest.raises(PartitionOffline, match="belongs to orders-3 with topic id"):
        open_log(tmp_path / "p", topic_id=UUID(int=1))


def test_a_log_that_is_marked_as_deleted_is_not_used_any_more(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a")

    marked = log.mark_deleted()

    assert list(tmp_path.iterdir()) == [marked]
    with pytest.raises(PartitionOffline, match="deleted"):
        append(log, b"b")
