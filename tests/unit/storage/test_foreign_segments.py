"""Files of other segments, older versions and missing ones are told from those written here."""

import shutil
from pathlib import Path

import pytest

from goqueue.model.errors import CorruptBatch
from goqueue.storage.disk import Disk
from goqueue.storage.index import encode_index
from goqueue.storage.log import PartitionLog
from goqueue.storage.mending.checking import DamagedLog, check_folder
from goqueue.storage.mending.mending import mend
from goqueue.storage.segment_files import INDEX_SUFFIX, SUFFIXES, TIME_INDEX_SUFFIX, SegmentFiles
from tests.unit.storage.stored_log import append, log_files, open_log, read_one, read_values

SEGMENT_BYTES = 400
COUNT = 20


def write(path: Path, word: bytes, *, is_closed: bool) -> list[bytes]:
    """Several segments with the same offsets and sizes whatever the word."""
    log = open_log(path, segment_bytes=SEGMENT_BYTES)
    values = [b"%s %02d %s" % (word, number, b"." * 40) for number in range(COUNT)]
    for value in values:
        append(log, value)
    log.flush()
    if is_closed:
        log.close()
    assert len(log_files(log)) > 3
    return values


def readable(log: PartitionLog) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            values = read_values(log, offset)
        except CorruptBatch:
            values = []
        for each in values:
            found[offset] = each
            offset += 1
        if not values:
            found |= read_single(log, offset)
            offset += 1
    return found


def read_single(log: PartitionLog, offset: int) -> dict[int, bytes | None]:
    try:
        return {offset: read_one(log, offset).value}
    except CorruptBatch:
        return {}


def base_of(file: Path) -> int:
    return int(file.name.partition(".")[0])


def findings(path: Path) -> list[object]:
    return list(check_folder(Disk(), path, None))


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_file_of_another_partition_is_not_served(
    tmp_path: Path, is_closed: bool, which: int
) -> None:
    ours = write(tmp_path / "orders-3", b"ours", is_closed=is_closed)
    write(tmp_path / "q", b"them", is_closed=is_closed)
    files = sorted((tmp_path / "orders-3").glob("*.log"))
    swapped = files[which]
    shutil.copyfile(tmp_path / "q" / swapped.name, swapped)
    foreign = swapped.read_bytes()
    bases = [*map(base_of, files), COUNT]
    lost = range(base_of(swapped), bases[bases.index(base_of(swapped)) + 1])

    [listed] = findings(tmp_path / "orders-3")
    log = open_log(tmp_path / "orders-3", clean=is_closed, segment_bytes=SEGMENT_BYTES)
    found = readable(log)

    assert found == {n: value for n, value in enumerate(ours) if n not in lost}
    assert [(each.offset, each.next_offset) for each in log.damage] == [(lost.start, lost.stop)]
    assert swapped.read_bytes() == foreign
    append(log, b"later")
    assert read_single(log, COUNT) == {COUNT: b"later"}
    log.close()
    # Noticed again by every start, until it is mended.
    log = open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES)
    assert readable(log) == found | {COUNT: b"later"}
    log.close()
    [listed] = findings(tmp_path / "orders-3")
    assert isinstance(listed, DamagedLog)
    mend(Disk(), listed)
    assert findings(tmp_path / "orders-3") == []
    log = open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES)
    assert read_values(log) == list((found | {COUNT: b"later"}).values())


def write_little(path: Path, *values: bytes, is_flushed: bool) -> list[bytes]:
    """One segment that takes appends, left as by a kill."""
    log = open_log(path)
    for value in values:
        append(log, value)
    if is_flushed:
        log.flush()
    log.let_go()
    return list(values)


def exchange(one: Path, other: Path) -> None:
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_exchanged_segments_of_a_killed_broker_are_not_served(
    tmp_path: Path, is_flushed: bool
) -> None:
    folders = [tmp_path / "ours" / "orders-3", tmp_path / "them" / "orders-3"]
    for folder in folders:
        folder.parent.mkdir()
        word = folder.parent.name.encode()
        write_little(folder, word + b" one", word + b" two", is_flushed=is_flushed)
    exchange(*(folder / "00000000000000000000.log" for folder in folders))

    for folder in folders:
        assert len(findings(folder)) == 1
        log = open_log(folder)
        assert readable(log) == {}
        assert [(each.offset, each.next_offset) for each in log.damage] == [(0, 2)]
        append(log, b"later")
        assert readable(log) == {2: b"later"}
        log.let_go()
        [listed] = findings(folder)
        assert isinstance(listed, DamagedLog)
        mend(Disk(), listed)
        assert findings(folder) == []


@pytest.mark.parametrize("is_flushed", [True, False])
def test_an_empty_file_in_the_place_of_one_that_took_appends_is_noticed(
    tmp_path: Path, is_flushed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    write_little(tmp_path / "orders-3", b"one", b"two", is_flushed=is_flushed)
    (tmp_path / "orders-3" / "00000000000000000000.log").write_bytes(b"")

    [listed] = findings(tmp_path / "orders-3")
    log = open_log(tmp_path / "orders-3")

    # What was on disk is not written over; what was not may have been lost by a power cut.
    assert log.log_end_offset == (2 if is_flushed else 0)
    assert bool(log.damage) == isinstance(listed, DamagedLog) == is_flushed
    assert "is gone" in caplog.text
    append(log, b"later")
    assert list(readable(log).values()) == [b"later"]
    log.let_go()
    log = open_log(tmp_path / "orders-3")
    assert list(readable(log).values()) == [b"later"]


def test_what_was_flushed_must_be_found_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-3")
    append(log, b"one")
    size = log.size_bytes
    append(log, b"two")
    log.flush()
    append(log, b"three")
    log.let_go()
    file = tmp_path / "orders-3" / "00000000000000000000.log"
    file.write_bytes(file.read_bytes()[:size])

    assert len(findings(tmp_path / "orders-3")) == 1
    log = open_log(tmp_path / "orders-3")

    assert [(each.offset, each.next_offset) for each in log.damage] == [(1, 2)]
    assert readable(log) == {0: b"one"}


def test_what_a_cut_took_away_is_not_missed(tmp_path: Path) -> None:
    """A follower's log may be cut below what it had on disk."""
    log = open_log(tmp_path / "orders-3")
    for value in (b"one", b"two", b"three"):
        append(log, value)
    log.flush()
    for offset in (1, 0):
        log.truncate_to(offset)
        append(log, b"other")
        log.let_go()
        assert findings(tmp_path / "orders-3") == []
        log = open_log(tmp_path / "orders-3")
        assert log.damage == ()
        assert log.log_end_offset == offset + 1
        log.flush()


def test_a_segment_copied_with_its_index_is_not_served(tmp_path: Path) -> None:
    ours = write(tmp_path / "orders-3", b"ours", is_closed=True)
    write(tmp_path / "q", b"them", is_closed=True)
    for file in (tmp_path / "q").glob("00000000000000000000.*"):
        shutil.copyfile(file, tmp_path / "orders-3" / file.name)

    found = readable(open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES))

    assert 0 not in found
    assert found.items() <= dict(enumerate(ours)).items()


def test_an_index_of_another_partition_is_made_anew(tmp_path: Path) -> None:
    ours = write(tmp_path / "orders-3", b"ours", is_closed=True)
    write(tmp_path / "q", b"them", is_closed=True)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for file in (tmp_path / "q").glob("*" + suffix):
            shutil.copyfile(file, tmp_path / "orders-3" / file.name)

    assert (
        read_values(open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES))
        == ours
    )


def test_indexes_of_earlier_releases_are_used_as_they_are(tmp_path: Path) -> None:
    ours = write(tmp_path / "orders-3", b"ours", is_closed=True)
    for file in (tmp_path / "orders-3").glob("*.log"):
        base, size = base_of(file), file.stat().st_size
        sealed = SegmentFiles(Disk(), file.parent, base).load_index(size)
        assert sealed is not None
        contents = encode_index(sealed, base, size, None)
        for suffix, content in zip((INDEX_SUFFIX, TIME_INDEX_SUFFIX), contents, strict=True):
            file.with_suffix(suffix).write_bytes(content)

    log = open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES)

    assert read_values(log) == ours
    assert log.damage == ()


@pytest.mark.parametrize("which", [0, 1, -2, -1])
@pytest.mark.parametrize("whole", [True, False])
def test_a_missing_segment_is_noticed_after_a_crash(
    tmp_path: Path, which: int, whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours = write(tmp_path / "orders-3", b"ours", is_closed=False)
    gone = sorted((tmp_path / "orders-3").glob("*.log"))[which]
    is_last = which == -1
    for suffix in SUFFIXES if whole and not is_last else (".log",):
        gone.with_suffix(suffix).unlink()

    assert findings(tmp_path / "orders-3")
    log = open_log(tmp_path / "orders-3", segment_bytes=SEGMENT_BYTES)
    found = readable(log)

    assert base_of(gone) not in found
    assert found.items() <= dict(enumerate(ours)).items()
    assert log.damage or "are gone" in caplog.text
    assert log.log_end_offset > base_of(gone)


def test_another_version_of_a_closed_segment_is_not_served(tmp_path: Path) -> None:
    """Such as the one that was there before a compaction."""
    ours = write(tmp_path / "orders-3", b"ours", is_closed=True)
    files = sorted((tmp_path / "orders-3").glob("*.log"))
    other = open_log(tmp_path / "q")
    append(other, ours[0])
    append(other, *[b"earlier"] * (base_of(files[1]) - 1))
    other.close()
    files[0].write_bytes(log_files(other)[0].read_bytes())

    assert len(findings(tmp_path / "orders-3")) == 1
    found = readable(open_log(tmp_path / "orders-3", clean=True, segment_bytes=SEGMENT_BYTES))

    assert found == {n: value for n, value in enumerate(ours) if n >= base_of(files[1])}


def test_what_retention_removed_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "orders-3", b"ours", is_closed=False)
    for is_purged in (False, True):
        log = open_log(
            tmp_path / "orders-3",
            retention_bytes=900 - 400 * is_purged,
            segment_bytes=SEGMENT_BYTES,
        )
        start = log.log_start_offset
        log.apply_retention(0)
        if is_purged:
            log.purge_deleted(1 << 60)
        assert log.log_start_offset > start
        log.let_go()
        assert findings(tmp_path / "orders-3") == []
    open_log(tmp_path / "orders-3", segment_bytes=SEGMENT_BYTES)
    assert "gone" not in caplog.text
