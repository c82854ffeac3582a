"""What compaction keeps and what it removes, on logs small enough to write down."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.control import MarkerType
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import COMPRESSION_CODES
from tests.unit.storage.keyed_log import (
    DAY_MS,
    Keyed,
    append_keyed,
    append_marker,
    close_segment,
    compact_log,
    copy,
    data_records,
    entries,
    headers_of,
    make_plan,
    take_in,
)
from tests.unit.storage.stored_log import (
    NOW_MS,
    flip_bit,
    log_files,
    open_log,
    read_bytes,
    read_one,
)

COMPACT: dict[str, Any] = {"cleanup_policy": "compact"}
ENDLESS = 1 << 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "p"


# --- records -----------------------------------------------------------------------------


def test_the_last_value_of_a_key_stays_where_it_was(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"), Keyed(b"b", b"1"), Keyed(b"a", b"2"))
    append_keyed(log, Keyed(b"c", b"1"))
    append_keyed(log, Keyed(b"b", b"2"))
    close_segment(log)
    append_keyed(log, Keyed(b"c", b"2"))
    compacted = compact_log(log)
    # The active segment neither changes nor counts.
    assert entries(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"c", b"2")]
    assert compacted.records_removed == 2
    assert log.log_end_offset == 6
    assert log.compaction.first_dirty_offset == 5


def test_what_was_compacted_before_gives_way_to_later_values(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"), Keyed(b"b", b"1"))
    close_segment(log)
    compact_log(log)
    append_keyed(log, Keyed(b"a", b"2"))
    close_segment(log)
    compact_log(log)
    assert entries(log) == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert log.segment_count == 2


def test_offsets_follow_on_and_every_one_can_be_read_from(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(30):
        append_keyed(log, Keyed(b"k%d" % (number % 3), b"%d" % number))
        if number % 7 == 6:
            close_segment(log)
    close_segment(log)
    compact_log(log)
    offset = 0
    for header in headers_of(log):
        assert header.base_offset == offset
        offset = header.next_offset
    assert offset == 30
    for start in range(30):
        read = log.read(start, 1 << 20, up_to=30, at_least_one=True, may_block=True)
        assert read.next_offset == 30
        assert read_one(log, 27).value == b"27"
    assert next(header.base_offset for header in log.headers_from(20)) <= 20


def test_rewritten_batches_keep_all_but_the_removed_records(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for compression in COMPRESSION_CODES:
        base = log.log_end_offset
        append_keyed(
            log,
            Keyed(b"old", b"x" * 200, NOW_MS + 7),
            Keyed(compression.encode(), b"y" * 200, NOW_MS + 3),
            Keyed(b"old", None, NOW_MS + 9),
            compression=compression,
            producer=(7, 1, base),
        )
    close_segment(log)
    compact_log(log)
    headers = [header for header in headers_of(log) if header.record_count]
    assert [header.compression for header in headers] == [0, 1, 2, 3, 4]
    assert [header.base_offset for header in headers] == [0, 3, 6, 9, 12]
    assert {header.last_offset_delta for header in headers} == {2}
    assert [header.base_sequence for header in headers] == [0, 3, 6, 9, 12]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(7, 1)}
    assert [header.max_timestamp_ms - NOW_MS for header in headers] == [3, 3, 3, 3, 9]
    assert [(record.offset, record.timestamp_ms - NOW_MS) for record in data_records(log)] == [
        (1, 3),
        (4, 3),
        (7, 3),
        (10, 3),
        (13, 3),
        (14, 9),
    ]


def test_untouched_batches_are_copied_byte_by_byte(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(10):
        append_keyed(log, Keyed(b"%d" % number, b"v"), compression="lz4")
    close_segment(log)
    before = read_bytes(log)
    compact_log(log)
    assert read_bytes(log) == before


def test_a_record_without_a_key_goes(folder: Path) -> None:
    """They can only be there from before the topic was compacted; Kafka's cleaner drops them."""
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(None, b"1"), Keyed(b"a", b"2"))
    close_segment(log)
    compact_log(log)
    assert entries(log) == [(1, b"a", b"2")]


def test_long_keys_are_told_apart(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(20):
        append_keyed(log, Keyed(b"x" * 100 + b"%d" % (number % 10), b"%d" % number))
    close_segment(log)
    compact_log(log)
    assert [value for _, _, value in entries(log)] == [b"%d" % n for n in range(10, 20)]


def test_compacting_again_changes_nothing(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(20):
        append_keyed(log, Keyed(b"%d" % (number % 4), b"v"), epoch=number // 10)
        if number % 5 == 4:
            close_segment(log)
    compact_log(log)
    once = read_bytes(log)
    compact_log(log)
    assert read_bytes(log) == once
    # What is gone is covered by one batch for each leader epoch.
    assert sum(header.record_count == 0 for header in headers_of(log)) == 2


def test_batches_larger_than_a_segment_leave_no_row_of_empty_segments(folder: Path) -> None:
    log = open_log(folder, **COMPACT, segment_bytes=1000)
    for number in range(30):
        append_keyed(log, Keyed(b"k%d" % (number % 3), b"v" * 3000))
    assert log.segment_count == 30
    close_segment(log)
    compact_log(log)
    # All that is gone lies before the first that is left.
    assert log.segment_count == 4
    assert [offset for offset, _, _ in entries(log)] == [27, 28, 29]
    assert [header.record_count for header in headers_of(log)] == [0, 1, 1, 1]
    compact_log(log)
    assert log.segment_count == 4


def test_small_segments_become_one(folder: Path) -> None:
    log = open_log(folder, **COMPACT, segment_bytes=1000)
    for number in range(100):
        append_keyed(log, Keyed(b"k%d" % (number % 5), b"v" * 50))
    assert log.segment_count > 10
    close_segment(log)
    compact_log(log)
    assert log.segment_count == 2
    reopened = open_log(folder, clean=False, **COMPACT)
    assert entries(reopened) == entries(log)
    assert [offset for offset, _, _ in entries(log)] == [95, 96, 97, 98, 99]


def test_times_are_found_in_a_compacted_log(folder: Path) -> None:
    log = open_log(folder, **COMPACT, index_interval_bytes=0)
    for number in range(10):
        append_keyed(
            log, Keyed(b"%d" % (number % 4), b"v", NOW_MS + number), producer=(1, 0, number)
        )
    close_segment(log)
    # The header of the last batch stays though its record goes: it must not be found by its time.
    append_keyed(log, Keyed(b"1", b"v", NOW_MS - 5))
    close_segment(log)
    compact_log(log, producers={1: (9,)})
    assert [offset for offset, _, _ in entries(log)] == [6, 7, 8, 10]
    found = log.offset_for_timestamp(NOW_MS, up_to=ENDLESS)
    assert found is not None
    assert found.offset == 6
    assert log.offset_for_timestamp(NOW_MS + 9, up_to=ENDLESS) is None
    newest = log.max_timestamp()
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (8, NOW_MS + 8)
    # The same from an index that is built anew.
    for path in folder.glob("*index"):
        path.unlink()
    assert open_log(folder, clean=True, **COMPACT).max_timestamp() == newest


def test_a_log_can_be_cut_within_its_compacted_part(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(12):
        append_keyed(log, Keyed(b"%d" % (number % 4), b"%d" % number))
    close_segment(log)
    compact_log(log)
    log.truncate_to(10)
    assert log.log_end_offset == 10
    assert log.compaction.first_dirty_offset == 10
    append_keyed(log, Keyed(b"9", b"new"))
    assert [offset for offset, _, _ in entries(log)] == [8, 9, 10]
    assert open_log(folder, **COMPACT).compaction.first_dirty_offset == 10
    # Cut inside the covered part, the log ends before the batch that covers it.
    log.truncate_to(3)
    assert log.log_end_offset == 0


def test_a_flipped_bit_in_a_compacted_segment_is_noticed(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(12):
        append_keyed(log, Keyed(b"%d" % (number % 4), b"%d" % number))
    close_segment(log)
    compact_log(log)
    sizes = [header.size_bytes for header in headers_of(log)]
    flip_bit(log_files(log)[0], sum(sizes[:2]) + 7)
    with pytest.raises(CorruptBatch, match="offsets 9 to 9 are damaged"):
        read_one(log, 9)
    assert read_one(log, 10).value == b"10"


# --- memory ------------------------------------------------------------------------------


def test_more_keys_than_memory_take_several_runs(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(40):
        append_keyed(log, Keyed(b"%d" % (number % 20), b"%d" % number))
        if number % 10 == 9:
            close_segment(log)
    runs = 0
    while log.compaction.first_dirty_offset < 40:
        plan = make_plan(log)
        limited = msgspec.structs.replace(plan, keys_max=7)
        before = log.compaction.first_dirty_offset
        take_in(log, limited, copy(limited))
        assert log.compaction.first_dirty_offset > before
        runs += 1
    assert runs == 6
    assert entries(log) == [(n, b"%d" % (n % 20), b"%d" % n) for n in range(20, 40)]


# --- tombstones --------------------------------------------------------------------------


def test_a_tombstone_stays_for_its_time_after_it_became_clean(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"))
    append_keyed(log, Keyed(b"a", None))
    close_segment(log)
    compact_log(log, now_ms=NOW_MS)
    assert entries(log) == [(1, b"a", None)]
    compact_log(log, now_ms=NOW_MS + DAY_MS - 1)
    assert entries(log) == [(1, b"a", None)]
    compact_log(log, now_ms=NOW_MS + DAY_MS)
    assert entries(log) == []
    assert log.log_end_offset == 2


def test_tombstones_count_from_their_own_round(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for number in range(4):
        append_keyed(log, Keyed(b"%d" % number, None))
        close_segment(log)
        compact_log(log, now_ms=NOW_MS + number * DAY_MS // 2)
    assert [offset for offset, _, _ in entries(log)] == [2, 3]
    reopened = open_log(folder, **COMPACT)
    compact_log(reopened, now_ms=NOW_MS + 2 * DAY_MS)
    assert [offset for offset, _, _ in entries(reopened)] == [3]


def test_a_tombstone_stays_while_a_snapshot_needs_it(folder: Path) -> None:
    """A table that starts from a snapshot must see what was deleted after it."""
    log = open_log(folder, **COMPACT, delete_retention_ms=0)
    append_keyed(log, Keyed(b"a", None))
    append_keyed(log, Keyed(b"b", None))
    close_segment(log)
    compact_log(log)
    (folder / f"{1:020d}.state").write_bytes(b"")
    compact_log(log)
    assert entries(log) == [(1, b"b", None)]


# --- producers and transactions ----------------------------------------------------------


def test_aborted_records_go_and_do_not_replace_others(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"good"))
    append_keyed(log, Keyed(b"a", b"void"), producer=(5, 0, 0), is_transactional=True)
    append_keyed(log, Keyed(b"b", b"good"), producer=(6, 0, 0), is_transactional=True)
    append_marker(log, MarkerType.ABORT, producer_id=5)
    append_marker(log, MarkerType.COMMIT, producer_id=6)
    close_segment(log)
    compact_log(log, aborted=[AbortedTransaction(5, 1, 3, 4)])
    assert entries(log) == [(0, b"a", b"good"), (2, b"b", b"good")]
    markers = [header.base_offset for header in headers_of(log) if header.is_control]
    assert markers == [3, 4]


def test_undecided_transactions_stop_compaction(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    append_keyed(log, Keyed(b"a", b"1"))
    close_segment(log)
    append_keyed(log, Keyed(b"a", b"2"))
    append_keyed(log, Keyed(b"a", b"open"), producer=(5, 0, 0), is_transactional=True)
    close_segment(log)
    compact_log(log, stable_offset=2)
    assert [offset for offset, _, _ in entries(log)] == [0, 1, 2]
    assert log.compaction.first_dirty_offset == 1


def test_markers_go_after_their_records_and_their_time(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    aborted = [AbortedTransaction(5, 0, 2, 3)]
    append_keyed(log, Keyed(b"a", b"void"), producer=(5, 0, 0), is_transactional=True)
    append_keyed(log, Keyed(b"b", b"good"), producer=(6, 0, 0), is_transactional=True)
    append_marker(log, MarkerType.ABORT, producer_id=5)
    append_marker(log, MarkerType.COMMIT, producer_id=6)
    close_segment(log)
    assert compact_log(log, aborted=aborted).removed_markers == ()
    assert compact_log(log, aborted=aborted, now_ms=NOW_MS + DAY_MS).removed_markers == (2,)
    append_keyed(log, Keyed(b"b", b"newer"))
    close_segment(log)
    assert compact_log(log, now_ms=NOW_MS + DAY_MS + 1).removed_markers == (3,)
    assert entries(log) == [(4, b"b", b"newer")]


def test_the_last_marker_of_a_known_producer_stays(folder: Path) -> None:
    log = open_log(folder, **COMPACT, delete_retention_ms=0)
    for _ in range(2):
        append_keyed(log, Keyed(b"a", b"1"), producer=(6, 0, 0), is_transactional=True)
        append_marker(log, MarkerType.COMMIT, producer_id=6)
    append_keyed(log, Keyed(b"a", b"2"))
    close_segment(log)
    for _ in range(2):
        compact_log(log, producers={6: (2,)})
    kept = [(header.base_offset, header.record_count) for header in headers_of(log)]
    assert kept == [(0, 0), (2, 0), (3, 1), (4, 1)]
    # An emptied batch opens no transaction when the log is replayed.
    assert not headers_of(log)[1].is_transactional


def test_a_marker_stays_while_a_producer_snapshot_needs_it(folder: Path) -> None:
    log = open_log(folder, **COMPACT, delete_retention_ms=0)
    append_keyed(log, Keyed(b"a", b"void"), producer=(5, 0, 0), is_transactional=True)
    append_marker(log, MarkerType.ABORT, producer_id=5)
    close_segment(log)
    aborted = [AbortedTransaction(5, 0, 1, 2)]
    compact_log(log, aborted=aborted)
    (folder / f"{1:020d}.producers").write_bytes(b"")
    assert compact_log(log, aborted=aborted).removed_markers == ()
    (folder / f"{1:020d}.producers").rename(folder / f"{2:020d}.producers")
    assert compact_log(log, aborted=aborted).removed_markers == (1,)


def test_headers_that_producers_are_known_by_stay(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    for sequence in range(4):
        append_keyed(log, Keyed(b"a", b"1"), compression="gzip", producer=(5, 3, sequence))
    append_keyed(log, Keyed(b"a", b"2"))
    close_segment(log)
    compact_log(log, producers={5: (2, 3)})
    kept = [
        (header.base_offset, header.producer_id, header.base_sequence, header.compression)
        for header in headers_of(log)
    ]
    assert kept == [(0, -1, -1, 0), (2, 5, 2, 0), (3, 5, 3, 0), (4, -1, -1, 0)]


# --- when ---------------------------------------------------------------------------------


def test_dirt_is_the_share_of_closed_segments_not_yet_compacted(folder: Path) -> None:
    log = open_log(folder, **COMPACT)
    config = log.config

    def dirt(now_ms: int = NOW_MS) -> tuple[float, bool]:
        found = log.compaction.measure(config, stable_offset=ENDLESS, now_ms=now_ms)
        return found.ratio, found.is_worth_a_run(config)

    append_keyed(log, Keyed(b"a", b"1"))
    assert dirt() == (0.0, False)
    close_segment(log)
    assert dirt() == (1.0, True)
    compact_log(log)
    assert dirt() == (0.0, False)
    append_keyed(log, Keyed(b"b", b"1"))
    close_segment(log)
    assert dirt() == (0.5, True)
    compact_log(log)
    append_keyed(log, Keyed(b"c", b"1"))
    close_segment(log)
    ratio, is_due = dirt()
    assert ratio == pytest.approx(1 / 3)
    assert not is_due


def test_young_records_wait_for_the_minimum_lag(folder: Path) -> None:
    log = open_log(folder, **COMPACT, min_compaction_lag_ms=1000)
    append_keyed(log, Keyed(b"a", b"1", NOW_MS))
    close_segment(log)
    append_keyed(log, Keyed(b"a", b"2", NOW_MS + 500))
    close_segment(log)
    compact_log(log, now_ms=NOW_MS + 1000)
    assert log.compaction.first_dirty_offset == 1
    assert len(entries(log)) == 2
    compact_log(log, now_ms=NOW_MS + 1500)
    assert entries(log) == [(1, b"a", b"2")]


def test_the_maximum_lag_closes_the_segment_and_makes_it_due(folder: Path) -> None:
    log = open_log(folder, **COMPACT, max_compaction_lag_ms=1000)
    for number in range(20):
        append_keyed(log, Keyed(b"%d" % number, b"1"))
    assert not log.roll_if_old(NOW_MS + 999)
    assert log.roll_if_old(NOW_MS + 1000)
    compact_log(log)
    append_keyed(log, Keyed(b"0", b"2"))
    reopened = open_log(folder, **COMPACT, max_compaction_lag_ms=1000)
    assert reopened.roll_if_old(NOW_MS + 1000)
    assert not reopened.roll_if_old(NOW_MS + 5000)
    for now_ms, is_due in ((NOW_MS + 999, False), (NOW_MS + 1000, True)):
        dirt = reopened.compaction.measure(reopened.config, stable_offset=ENDLESS, now_ms=now_ms)
        assert dirt.ratio < 0.5
        assert dirt.is_worth_a_run(reopened.config) is is_due
