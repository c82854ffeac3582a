"""Readers and flushes in other threads while the log is appended to and segments go."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goqueue.model.batch import iterate_batches
from goqueue.model.errors import OffsetOutOfRange, PartitionOffline
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.storage.stored_log import NOW_MS, append, fill, open_log, read_values


class SlowSync(Disk):
    """Holds every fdatasync until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def fdatasync(self, fd: int) -> None:
        self.begun.set()
        assert self.go_on.wait(10)
        super().fdatasync(fd)


def test_a_flush_counts_only_what_was_appended_before_it(tmp_path: Path) -> None:
    disk = SlowSync()
    log = open_log(tmp_path / "p", disk=disk, segment_bytes=400)
    fill(log, 3)
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(log.flush)
        assert disk.begun.wait(10)
        fill(log, 10)
        disk.go_on.set()

        assert flushing.result(10) == 3
    assert log.flushed_offset == 3
    assert log.flush() == log.flushed_offset == 13


def test_readers_see_whole_batches_in_order_while_segments_come_and_go(tmp_path: Path) -> None:
    config: dict[str, Any] = {"segment_bytes": 2000, "retention_bytes": 5_000}
    log = open_log(tmp_path / "p", file_delete_delay_ms=0, **config)
    stop = threading.Event()

    def follow() -> int:
        offset, count = 0, 0
        while not stop.is_set() or offset < log.log_end_offset:
            try:
                read = log.read(
                    offset, 700, up_to=log.log_end_offset, at_least_one=True, may_block=True
                )
            except OffsetOutOfRange:
                offset = log.log_start_offset
                continue
            for _, header in iterate_batches(read.data):
                assert header.base_offset == offset
                offset = header.next_offset
                count += 1
        return count

    def flush() -> None:
        while not stop.is_set():
            log.flush()

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(follow) for _ in range(3)]
        flusher = pool.submit(flush)
        try:
            for number in range(500):
                append(log, b"%d" % number)
                if number % 20 == 0:
                    log.apply_retention(NOW_MS)
                    log.purge_deleted(NOW_MS)
        finally:
            stop.set()
        assert all(reader.result(30) > 0 for reader in readers)
        flusher.result(30)
    assert log.offline_reason is None
    assert log.damage == ()
    assert log.log_start_offset > 0


def test_a_reader_that_holds_a_removed_segment_can_finish(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    fill(log, 12)
    headers = log.headers_from(0)
    assert next(headers).base_offset == 0

    log.advance_start(12)
    log.purge_deleted(NOW_MS)

    # The first segment is still read from its open file; the others are gone.
    assert [next(headers).base_offset for _ in range(2)] == [1, 2]
    with pytest.raises(OffsetOutOfRange):
        next(headers)
    assert log.offline_reason is None


def test_cold_reads_are_left_to_a_thread(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 12)
    log.close()
    disk = FaultyDisk()
    log = open_log(tmp_path / "p", disk=disk, clean=True)

    with pytest.raises(BlockingIOError):
        log.read(0, 100, up_to=12, at_least_one=True, may_block=False)
    assert read_values(log) == values
    disk.inject("pread_cached", errno.EAGAIN)
    with pytest.raises(BlockingIOError):
        log.read(0, 100, up_to=12, at_least_one=True, may_block=False)
    disk.heal()
    read = log.read(0, 100, up_to=12, at_least_one=True, may_block=False)
    assert read.next_offset == 1


def test_a_batch_half_in_the_cache_is_left_to_a_thread(tmp_path: Path) -> None:
    class HalfCached(Disk):
        def pread_cached(self, fd: int, size: int, position: int) -> bytes:
            return super().pread(fd, min(size, 100), position)

    log = open_log(tmp_path / "p", disk=HalfCached())
    append(log, b"x" * 500)

    with pytest.raises(BlockingIOError):
        log.read(0, 5000, up_to=1, at_least_one=True, may_block=False)
    assert log.read(0, 5000, up_to=1, at_least_one=True, may_block=True).next_offset == 1


def test_file_systems_without_cached_reads_are_read_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr("os.preadv", unsupported)
    log = open_log(tmp_path / "p")
    append(log, b"x")

    read = log.read(0, 5000, up_to=1, at_least_one=True, may_block=False)

    assert read.next_offset == 1


def test_a_read_of_a_log_that_is_deleted_meanwhile_is_nobodys_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Deleting(Disk):
        """Deletes the log as another thread may: after a reader found its segment in it."""

        log: PartitionLog | None = None

        def open(self, path: Path, flags: int) -> int:
            if self.log is not None:
                self.log.mark_deleted()
            return super().open(path, flags)

    disk = Deleting()
    log = open_log(tmp_path / "p", segment_bytes=400)
    fill(log, 10)
    log.close()
    log = open_log(tmp_path / "p", disk=disk, clean=True, segment_bytes=400)
    disk.log = log
    with pytest.raises(PartitionOffline, match="deleted"):
        log.read(0, 100, up_to=10, at_least_one=True, may_block=True)
    assert not caplog.records
