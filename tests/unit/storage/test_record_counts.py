"""Counts by headers are those of the records that a reader gets."""

import threading
from pathlib import Path

import pytest

from goqueue.model.aborted import AbortedBatches, AbortedTransaction
from goqueue.model.control import MarkerType
from goqueue.model.errors import CorruptBatch, OffsetOutOfRange
from goqueue.storage import record_counts
from goqueue.storage.log import PartitionLog
from tests.unit.storage.keyed_log import (
    Keyed,
    append_keyed,
    append_marker,
    close_segment,
    compact_log,
    data_records,
)
from tests.unit.storage.stored_log import NOW_MS, append, fill, flip_bit, log_files, open_log

ABORTED = AbortedTransaction(producer_id=7, first_offset=2, last_offset=4, last_stable_offset=5)


def count(log: PartitionLog, start: int, end: int, aborted: AbortedBatches | None = None) -> int:
    """What is remembered first, and then step by step, as the broker does it."""
    records, offset = 0, start
    while offset < end:
        found = log.known_count(offset, end, without_aborted=aborted is not None)
        if found.next_offset == offset:
            found = log.count(offset, end, aborted=aborted)
        assert offset < found.next_offset <= end
        records, offset = records + found.records, found.next_offset
    return records


def check_every_range(log: PartitionLog, aborted: AbortedBatches | None = None) -> None:
    """Twice: once counted and once remembered."""
    first, end = log.log_start_offset, log.log_end_offset
    kept = [
        record.offset
        for record in data_records(log)
        if aborted is None or not ABORTED.first_offset <= record.offset < ABORTED.last_offset
    ]
    for _ in range(2):
        for start in range(first, end + 1):
            for stop in range(start, end + 1):
                expected = sum(start <= offset < stop for offset in kept)
                assert count(log, start, stop, aborted) == expected, (start, stop)


@pytest.fixture(params=[1, 2, 16_384])
def short_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_counts, "STEP_HEADERS_MAX", request.param)


@pytest.mark.usefixtures("short_steps")
def test_a_plain_log_has_as_many_records_as_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=300)
    for number in range(6):
        append(log, *(b"%d" % value for value in range(number % 3 + 1)))
    assert log.segment_count > 1

    check_every_range(log)


@pytest.mark.usefixtures("short_steps")
def test_steps_end_after_so_many_offsets_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_counts, "STEP_OFFSETS_MAX", 4)
    log = open_log(tmp_path / "log")
    for _ in range(5):
        append(log, b"one", b"two", b"three")

    check_every_range(log)


@pytest.mark.usefixtures("short_steps")
def test_markers_do_not_count_and_what_was_aborted_need_not(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, b"plain", b"plain")
    append_keyed(log, Keyed(b"k", b"void"), producer=(7, 0, 0), is_transactional=True)
    append_keyed(log, Keyed(b"k", b"void"), producer=(7, 0, 1), is_transactional=True)
    append_marker(log, MarkerType.ABORT, producer_id=7)
    append_keyed(log, Keyed(b"k", b"kept"), producer=(7, 0, 2), is_transactional=True)
    append_marker(log, MarkerType.COMMIT, producer_id=7)

    check_every_range(log)
    check_every_range(log, AbortedBatches([ABORTED]))
    assert count(log, 0, 7) == 5
    assert count(log, 0, 7, AbortedBatches([ABORTED])) == 3


@pytest.mark.usefixtures("short_steps")
def test_a_compacted_log_has_fewer_records_than_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", cleanup_policy="compact")
    for round_ in range(3):
        append_keyed(
            log, *(Keyed(b"key-%d" % key, b"%d" % round_) for key in (0, round_ + 1, round_ + 4))
        )
        append_keyed(log, Keyed(b"always", b"%d" % round_))
    close_segment(log)
    assert count(log, 0, log.log_end_offset) == log.log_end_offset == 12

    compact_log(log)

    assert len(data_records(log)) == 8
    check_every_range(log)


def test_after_retention_the_rest_is_counted_and_what_is_gone_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=600, retention_bytes=600)
    fill(log, 20)
    assert count(log, 0, 20) == 20

    log.apply_retention(NOW_MS)

    start = log.log_start_offset
    assert 0 < start < 20
    assert count(log, start, 20) == 20 - start
    with pytest.raises(OffsetOutOfRange):
        count(log, start - 1, 20)


def test_what_is_remembered_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_counts, "STEP_HEADERS_MAX", 4)
    log = open_log(tmp_path / "log")
    fill(log, 10)
    assert count(log, 0, 10) == 10

    assert log.known_count(0, 10, without_aborted=False) == (8, 8)
    assert log.known_count(4, 9, without_aborted=False) == (4, 8)
    assert log.known_count(3, 9, without_aborted=False) == (0, 3)
    assert log.known_count(0, 10, without_aborted=True) == (0, 0)
    # Goes on to the next place that is known, and no further.
    assert log.count(3, 10, aborted=None) == (1, 4)


def test_a_cut_log_is_counted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_counts, "STEP_HEADERS_MAX", 2)
    log = open_log(tmp_path / "log")
    fill(log, 10)
    assert count(log, 0, 10) == 10

    log.truncate_to(4)
    append(log, b"one", b"two")
    append_marker(log, MarkerType.COMMIT, producer_id=7)

    assert count(log, 0, 7) == 6


def test_damage_ends_a_count(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 3)
    (file,) = log_files(log)
    flip_bit(file, log.size_bytes // 3 + 16)  # the format version of the second batch

    assert log.count(0, 1, aborted=None) == (1, 1)
    with pytest.raises(CorruptBatch, match="offset"):
        log.count(0, 3, aborted=None)


def test_a_log_is_counted_while_it_grows(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=2_000)
    fill(log, 1)
    is_over = threading.Event()
    wrong: list[tuple[int, int]] = []

    def keep_counting() -> None:
        while not is_over.is_set():
            end = log.log_end_offset
            found = count(log, 0, end)
            if found != end:
                wrong.append((found, end))

    counter = threading.Thread(target=keep_counting)
    counter.start()
    fill(log, 500)
    is_over.set()
    counter.join()

    assert not wrong
    assert count(log, 0, 501) == 501
