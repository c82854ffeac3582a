"""From a time to the exact first record at or after it."""

import random
import time
from pathlib import Path

import pytest

from goqueue.model.batch import assign, read_header
from goqueue.model.records import NewRecord, encode_records
from goqueue.storage.log import PartitionLog
from tests.busy_machine import stretched
from tests.unit.storage.stored_log import NOW_MS, append, flip_bit, log_files, open_log, read_one

EVERYWHERE = 1 << 40


def first_at(times: list[int], wanted: int, *, start: int = 0) -> int | None:
    return next((n for n in range(start, len(times)) if times[n] >= wanted), None)


def found(log: PartitionLog, wanted: int) -> int | None:
    result = log.offset_for_timestamp(wanted, up_to=EVERYWHERE)
    return None if result is None else result.offset


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled", "equal"])
@pytest.mark.parametrize("interval", [0, 300, 4096])
def test_the_first_record_is_found_in_any_order_of_times(
    tmp_path: Path, order: str, interval: int
) -> None:
    times = [NOW_MS + 10 * n for n in range(120)]
    if order == "falling":
        times.reverse()
    elif order == "shuffled":
        random.Random(7).shuffle(times)
    elif order == "equal":
        times = [NOW_MS] * 120
    log = open_log(tmp_path / "p", segment_bytes=1500, index_interval_bytes=interval)
    for n in range(0, 120, 3):
        append(log, b"a", b"b", b"c", timestamps_ms=times[n : n + 3])

    for reopened in (log, open_log(tmp_path / "p", index_interval_bytes=interval)):
        for wanted in [0, *range(NOW_MS - 5, NOW_MS + 1205, 5)]:
            assert found(reopened, wanted) == first_at(times, wanted)
        newest = reopened.max_timestamp()
        assert newest is not None
        assert newest.offset == times.index(max(times))
        assert newest.timestamp_ms == max(times)


def test_the_answer_carries_time_and_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a", timestamps_ms=[NOW_MS], epoch=2)
    append(log, b"b", b"c", timestamps_ms=[NOW_MS + 5, NOW_MS + 9], epoch=4)

    assert log.offset_for_timestamp(NOW_MS + 6, up_to=3) == (2, NOW_MS + 9, 4)


def test_records_beyond_up_to_or_below_the_start_are_not_answers(tmp_path: Path) -> None:
    times = [NOW_MS + 50, NOW_MS, NOW_MS + 10, NOW_MS + 20]
    log = open_log(tmp_path / "p")
    append(log, b"a", b"b", timestamps_ms=times[:2])
    append(log, b"c", b"d", timestamps_ms=times[2:])

    assert log.offset_for_timestamp(NOW_MS + 60, up_to=4) is None
    assert log.offset_for_timestamp(NOW_MS, up_to=0) is None
    log.advance_start(1)
    assert found(log, NOW_MS) == 1
    assert found(log, NOW_MS + 15) == 3
    assert log.offset_for_timestamp(NOW_MS + 15, up_to=3) is None
    log.advance_start(2)
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 3


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")

    assert log.offset_for_timestamp(0, up_to=10) is None
    assert log.max_timestamp() is None


def test_damaged_batches_are_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    sizes = [len(append(log, b"x", timestamps_ms=[NOW_MS + n])) for n in range(4)]
    (file,) = log_files(log)
    flip_bit(file, sizes[0] + 65)

    assert found(log, NOW_MS + 1) == 2
    assert [damage.offset for damage in log.damage] == [1]


def test_an_undecodable_batch_is_named_as_a_whole(tmp_path: Path) -> None:
    """Producers may compress what they like; the checksum fits, so it was stored."""
    from crc32c import crc32c

    log = open_log(tmp_path / "p")
    append(log, b"a", timestamps_ms=[NOW_MS])
    batch = encode_records([NewRecord(value=b"b" * 99)] * 2, now_ms=NOW_MS + 5, compression=4)
    batch[70:] = b"\xee" * len(batch[70:])
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    assign(batch, 0, 1, 0)
    log.append(batch, [(0, read_header(batch))], now_ms=NOW_MS)

    assert log.offset_for_timestamp(NOW_MS + 1, up_to=3) == (1, NOW_MS + 5, 0)


def test_look_ups_in_a_million_messages_take_less_than_a_millisecond(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=16 << 20)
    template = encode_records([NewRecord(value=b"v" * 60)] * 20, now_ms=NOW_MS)
    for number in range(50_000):
        batch = bytearray(template)
        assign(batch, 0, number * 20, 0)
        header = read_header(batch)._replace(
            base_timestamp_ms=NOW_MS + number, max_timestamp_ms=NOW_MS + number
        )
        log.append(batch, [(0, header)], now_ms=NOW_MS)
    assert log.log_end_offset == 1_000_000
    assert log.segment_count > 3
    offsets = random.Random(1).sample(range(1_000_000), 200)
    durations = []
    for offset in offsets:
        started = time.perf_counter()
        read = log.read(offset, 1, up_to=1_000_000, at_least_one=True, may_block=True)
        durations.append(time.perf_counter() - started)
        assert read_header(read.data).base_offset == offset - offset % 20
    assert read_one(log, 999_999).offset == 999_999

    # The median: a busy machine may interrupt any single one.
    assert sorted(durations)[100] < stretched(0.001)
