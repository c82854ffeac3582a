"""Logs share a bound on open files, and no failed sync is lost by closing one."""

import errno
import random
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from goqueue.model.batch import Buffer
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.model.names import topic_partition
from goqueue.model.topic_config import topic_config
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from goqueue.storage.open_segments import READERS_MAX, WRITERS_MIN, OpenSegments
from goqueue.storage.segment_writer import SegmentWriter
from goqueue.testing.faulty_disk import FaultyDisk
from tests.busy_machine import stretched
from tests.unit.storage.stored_log import NOW_MS, append, make_batch, read_values

LOGS = 3 * WRITERS_MIN
# Descriptors that threads hold for a moment beyond the bound.
IN_HAND = 16


class WatchfulDisk(FaultyDisk):
    """Notes files that are closed with bytes that were never synced through that descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self._unsynced: set[int] = set()
        self.closed_unsynced: list[Path] = []
        self.most_open = 0

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self.most_open = max(self.most_open, len(self._paths))
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        self._unsynced.add(fd)
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        # A write that comes meanwhile may or may not be covered.
        self._unsynced.discard(fd)
        super().fdatasync(fd)

    def close(self, fd: int) -> None:
        path = self._paths[fd]
        if fd in self._unsynced and path.suffix == ".log":
            self.closed_unsynced.append(path)
        self._unsynced.discard(fd)
        super().close(fd)


def open_logs(
    folder: Path, disk: Disk, files: OpenSegments, count: int = LOGS, **config: Any
) -> list[PartitionLog]:
    texts = {name.replace("_", "."): str(value) for name, value in config.items()}
    return [
        PartitionLog.open(
            folder / f"orders-{number}",
            name=topic_partition("orders", number),
            topic_id=uuid4(),
            config=topic_config(texts),
            disk=disk,
            clean=False,
            now_ms=NOW_MS,
            open_segments=files,
        )
        for number in range(count)
    ]


@contextmanager
def few_files() -> Iterator[OpenSegments]:
    files = OpenSegments(WRITERS_MIN + READERS_MAX)
    try:
        yield files
    finally:
        files.close()


def test_logs_beyond_the_bound_are_written_and_read(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        logs = open_logs(tmp_path, disk, files)
        for turn in range(5):
            for number, log in enumerate(logs):
                append(log, b"%d-%d" % (number, turn))
                assert len(files) <= files.limit
        assert 1 < len(files.writers) <= WRITERS_MIN
        for number, log in enumerate(logs):
            assert read_values(log) == [b"%d-%d" % (number, turn) for turn in range(5)]
        assert disk.most_open <= files.limit + IN_HAND
        assert disk.closed_unsynced == []


def test_a_failed_sync_is_not_lost_when_a_file_makes_room(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        first, *others = open_logs(tmp_path, disk, files)
        append(first, b"acknowledged")
        disk.inject("fdatasync", errno.EIO, path_contains=str(first.path), times=1)
        for log in others:
            append(log, b"x")
        with pytest.raises(PartitionOffline, match="fsync failed"):
            first.flush()
        assert first.flushed_offset == 0
        with pytest.raises(PartitionOffline, match="fsync failed"):
            append(first, b"more")
        assert all(log.offline_reason is None for log in others)
        assert disk.closed_unsynced == []


def test_a_sync_covers_what_was_written_while_the_file_was_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that finds the file out of sight for a moment must not pass for one that was done."""
    disk = WatchfulDisk()
    syncs: list[threading.Thread] = []
    on_disk_after: list[bool] = []

    def sync_meanwhile(writer: SegmentWriter) -> None:
        def sync() -> None:
            writer.sync()
            on_disk_after.append(writer.is_on_disk)

        syncs.append(threading.Thread(target=sync))
        syncs[0].start()
        syncs[0].join(0.2)  # it waits for whoever parks the file

    def write_late(fd: int) -> None:
        monkeypatch.undo()
        disk.fdatasync(fd)
        append(log, b"late")
        monkeypatch.setattr(files.writers, "discard", sync_meanwhile)

    with few_files() as files:
        writers: list[SegmentWriter] = []
        monkeypatch.setattr(files.writers, "added", writers.append)
        [log] = open_logs(tmp_path, disk, files, 1)
        append(log, b"early")
        monkeypatch.setattr(disk, "fdatasync", write_late)
        assert not writers[0].park()
        syncs[0].join()
        assert on_disk_after == [True]
        assert read_values(log) == [b"early", b"late"]


def test_a_rolled_segment_keeps_its_file_until_it_is_on_disk(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        [log] = open_logs(tmp_path, disk, files, 1, segment_bytes=1000)
        disk.inject("fdatasync", errno.EIO, times=1)
        while log.segment_count == 1:
            append(log, b"x" * 100)
        files.close()  # waits for what happens in the background
        with pytest.raises(PartitionOffline, match="fsync failed"):
            log.flush()
        assert disk.closed_unsynced == []


def test_rolled_segments_become_readers_whatever_the_policy(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        [log] = open_logs(tmp_path, disk, files, 1, segment_bytes=1000)
        for number in range(200):
            append(log, b"%d" % number)
        files.writers.close()
        assert len(files.writers) <= 1
        assert read_values(log) == [b"%d" % number for number in range(200)]
        assert disk.closed_unsynced == []


def test_an_append_that_finds_no_descriptor_can_be_repeated(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        logs = open_logs(tmp_path, disk, files)
        for log in logs:
            append(log, b"x")
        still_open = {path.parent for path in disk.open_paths()}
        parked = next(log for log in logs if log.path not in still_open)
        disk.inject("open", errno.EMFILE, path_contains=str(parked.path), times=1)
        with pytest.raises(PartitionOffline, match="Too many open files"):
            append(parked, b"y")
        append(parked, b"z")
        assert read_values(parked) == [b"x", b"z"]


def test_deleted_logs_hold_no_file(tmp_path: Path) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        logs = open_logs(tmp_path, disk, files)
        for log in logs:
            append(log, b"x")
        for log in logs:
            log.mark_deleted()
        assert len(files) == 0
        # One may just be synced by the thread that was to park it, which closes it then.
        give_up_at = time.monotonic() + stretched(20)
        while disk.open_paths() and time.monotonic() < give_up_at:
            time.sleep(0.01)
        assert disk.open_paths() == []


class Hammer:
    """Appends, deletes, and lets threads read and flush, at random."""

    def __init__(self, logs: list[PartitionLog], seed: int) -> None:
        self.logs = logs
        self._seed = seed
        self._stop = threading.Event()

    def run(self, turns: int) -> int:
        """How much the readers looked at meanwhile."""
        with ThreadPoolExecutor(5) as pool:
            readers = [pool.submit(self._read, number) for number in range(3)]
            flushers = [pool.submit(self._flush, number) for number in range(2)]
            try:
                self._append(turns)
            finally:
                self._stop.set()
            for flusher in flushers:
                flusher.result(stretched(20))
            return sum(reader.result(stretched(20)) for reader in readers)

    def _append(self, turns: int) -> None:
        chance = random.Random(self._seed)
        for turn in range(turns):
            number = chance.randrange(len(self.logs))
            log = self.logs[number]
            if log.offline_reason is not None:
                continue
            if turn % 100 == 99:
                log.mark_deleted()
            else:
                append(log, _value(number, log.log_end_offset))

    def _read(self, reader: int) -> int:
        chance, checked = random.Random(f"{self._seed} {reader}"), 0
        while not self._stop.is_set():
            number = chance.randrange(len(self.logs))
            log = self.logs[number]
            if log.log_end_offset:
                try:
                    check_record(log, number, chance.randrange(log.log_end_offset))
                except GoQueueError:
                    assert log.offline_reason is not None  # deleted meanwhile
                checked += 1
        return checked

    def _flush(self, flusher: int) -> None:
        chance = random.Random(f"{self._seed} {flusher}")
        while not self._stop.is_set():
            log = chance.choice(self.logs)
            try:
                log.flush()
            except PartitionOffline:
                assert log.offline_reason is not None


def _value(number: int, offset: int) -> bytes:
    return b"%d at %d" % (number, offset)


def check_record(log: PartitionLog, number: int, offset: int) -> None:
    read = log.read(offset, 1, up_to=log.log_end_offset, at_least_one=True, may_block=True)
    assert read.data == make_batch([_value(number, offset)], offset), f"{number} at {offset}"


@pytest.mark.parametrize("seed", range(3))
def test_random_access_by_threads_while_files_come_and_go(tmp_path: Path, seed: int) -> None:
    disk = WatchfulDisk()
    with few_files() as files:
        logs = open_logs(tmp_path, disk, files, segment_bytes=2000)
        assert Hammer(logs, seed).run(turns=1500) > 0
        alive = [number for number, log in enumerate(logs) if log.offline_reason is None]
        for number in alive:
            for offset in range(logs[number].log_end_offset):
                check_record(logs[number], number, offset)
            logs[number].close()
    closed = {path.parent for path in disk.closed_unsynced}
    assert closed.isdisjoint(logs[number].path for number in alive)
    assert disk.most_open <= files.limit + IN_HAND


def test_half_of_what_the_process_may_open_is_for_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    may_open = 1_192
    monkeypatch.setattr(resource, "getrlimit", lambda _: (may_open, may_open))
    assert OpenSegments(400).limit == 400
    assert OpenSegments(5_000).limit == 500
    may_open = resource.RLIM_INFINITY
    assert OpenSegments(50_000).limit == 50_000
