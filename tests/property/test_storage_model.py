"""A partition log against a plain list of records, over random histories with crashes."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.storage.log import PartitionLog
from tests.unit.storage.stored_log import (
    NOW_MS,
    append,
    log_files,
    open_log,
    read_bytes,
    records_of,
)

ENDLESS = 1 << 40
values = st.lists(st.binary(max_size=80), min_size=1, max_size=4)
timestamps = st.integers(NOW_MS, NOW_MS + 1000)


class LogAgainstList(RuleBasedStateMachine):
    """`records[n]` is (timestamp, value) of offset n, whether or not it is still in the log."""

    @initialize(
        segment_bytes=st.integers(100, 1500), index_interval_bytes=st.sampled_from([0, 150, 4096])
    )
    def begin(self, segment_bytes: int, index_interval_bytes: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.settings: dict[str, Any] = {
            "segment_bytes": segment_bytes,
            "index_interval_bytes": index_interval_bytes,
            "retention_bytes": 600,
            "retention_ms": -1,
            "segment_ms": 500,
        }
        self.records: list[tuple[int, bytes]] = []
        self.ends = {0}
        self.start = 0
        self.flushed_bytes: dict[Path, int] = {}
        self.epoch = 0
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> PartitionLog:
        return open_log(Path(self.folder.name) / "p", clean=clean, **self.settings)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(batch=values, data=st.data())
    def append(self, batch: list[bytes], data: st.DataObject) -> None:
        times = data.draw(st.lists(timestamps, min_size=len(batch), max_size=len(batch)))
        append(self.log, *batch, timestamps_ms=times, epoch=self.epoch)
        self.records.extend(zip(times, batch, strict=True))
        self.ends.add(len(self.records))

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.log_end_offset)

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == len(self.records)
        self.note_flushed()

    def note_flushed(self) -> None:
        self.flushed_bytes = {path: path.stat().st_size for path in log_files(self.log)}

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.open(clean=True)
        self.note_flushed()
        assert self.log.flushed_offset == len(self.records)

    @rule()
    def kill(self) -> None:
        """The process dies; the page cache survives."""
        self.log = self.open(clean=False)

    @rule(lost=st.integers(0, 400), junk=st.binary(max_size=100))
    def lose_power(self, lost: int, junk: bytes) -> None:
        """The last file loses unflushed bytes from its end, or gets others there."""
        flushed_offset = self.log.flushed_offset
        last = log_files(self.log)[-1]
        content = last.read_bytes()
        kept = max(len(content) - lost, self.flushed_bytes.get(last, 0))
        last.write_bytes(content[:kept] + junk)
        self.log = self.open(clean=False)
        end = self.log.log_end_offset
        assert flushed_offset <= end <= len(self.records)
        assert end in self.ends or end == self.start
        self.cut(end)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        self.log.truncate_to(offset)
        self.cut(max(end for end in {*self.ends, self.start} if end <= offset))

    def cut(self, end: int) -> None:
        del self.records[end:]
        self.ends = {old for old in self.ends if old <= end} | {end}
        sizes = {path: path.stat().st_size for path in log_files(self.log)}
        self.flushed_bytes = {
            path: min(size, sizes[path])
            for path, size in self.flushed_bytes.items()
            if path in sizes
        }

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, len(self.records)))
        self.log.advance_start(self.start)

    @rule()
    def retain(self) -> None:
        self.log.apply_retention(NOW_MS)
        self.log.purge_deleted(NOW_MS + 100_000_000)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule(wanted=timestamps)
    def look_up_time(self, wanted: int) -> None:
        found = self.log.offset_for_timestamp(wanted, up_to=ENDLESS)
        expected = next(
            (
                (offset, self.records[offset][0])
                for offset in range(self.start, len(self.records))
                if self.records[offset][0] >= wanted
            ),
            None,
        )
        assert (None if found is None else found[:2]) == expected

    @rule(data=st.data(), max_bytes=st.integers(1, 1000))
    def read_somewhere(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        found = [
            (record.offset, record.timestamp_ms, record.value)
            for record in records_of(read_bytes(self.log, offset, max_bytes=max_bytes))
            if record.offset >= offset
        ]
        assert found == [(n, *self.records[n]) for n in range(offset, len(self.records))]

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_start_offset == self.start
            assert self.log.log_end_offset == len(self.records)
            assert self.log.flushed_offset <= self.log.log_end_offset
            assert self.log.damage == ()
            assert self.log.size_bytes == sum(path.stat().st_size for path in log_files(self.log))


LogAgainstList.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogAgainstList = LogAgainstList.TestCase
