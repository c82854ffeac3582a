"""A partition log for tests: short to open, fill, read back and damage."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from goqueue.model.batch import BatchHeader, assign, iterate_batches, read_header
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, Record, decode_records, encode_records
from goqueue.model.topic_config import topic_config
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog

NAME = topic_partition("orders", 3)
TOPIC_ID = UUID("7b9b5d0e-6f0e-4c67-9a3f-1f6d1c1a2b3c")
NOW_MS = 1_700_000_000_000
EVERYTHING = 1 << 30


class UnsyncedDisk(Disk):
    """For tests that open a log hundreds of times and never cut the power for real."""

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: Path) -> None:
        pass


def open_log(
    path: Path,
    *,
    topic_id: UUID = TOPIC_ID,
    disk: Disk | None = None,
    clean: bool = False,
    now_ms: int = NOW_MS,
    on_recovered: Callable[[BatchHeader, int], None] | None = None,
    **config: Any,
) -> PartitionLog:
    """Settings by name with underscores: `segment_bytes=1000`."""
    texts = {name.replace("_", "."): str(value) for name, value in config.items()}
    return PartitionLog.open(
        path,
        name=NAME,
        topic_id=topic_id,
        config=topic_config(texts),
        disk=disk or UnsyncedDisk(),
        clean=clean,
        now_ms=now_ms,
        on_recovered=on_recovered,
    )


def make_batch(
    values: Sequence[bytes], offset: int, *, timestamps_ms: Sequence[int] = (), epoch: int = 0
) -> bytearray:
    times = timestamps_ms or [NOW_MS] * len(values)
    records = [
        NewRecord(value=value, timestamp_ms=time) for value, time in zip(values, times, strict=True)
    ]
    batch = encode_records(records, now_ms=NOW_MS)
    assign(batch, 0, offset, epoch)
    return batch


def append(
    log: PartitionLog,
    *values: bytes,
    timestamps_ms: Sequence[int] = (),
    epoch: int = 0,
    now_ms: int = NOW_MS,
) -> bytearray:
    """Append the values as one batch; returns its bytes."""
    batch = make_batch(values, log.log_end_offset, timestamps_ms=timestamps_ms, epoch=epoch)
    log.append(batch, [(0, read_header(batch))], now_ms=now_ms)
    return batch


def fill(log: PartitionLog, count: int, *, size: int = 50) -> list[bytes]:
    """Append `count` batches of one record; returns the values, distinct and of equal size."""
    values = [b"%010d" % number + b"." * (size - 10) for number in range(count)]
    for value in values:
        append(log, value)
    return values


def read_bytes(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1000) -> bytes:
    offset = log.log_start_offset if offset is None else offset
    parts = []
    while offset < log.log_end_offset:
        read = log.read(
            offset, max_bytes, up_to=log.log_end_offset, at_least_one=True, may_block=True
        )
        assert read.next_offset > offset
        parts.append(read.data)
        offset = read.next_offset
    return b"".join(parts)


def records_of(data: bytes) -> list[Record]:
    return [
        record
        for position, header in iterate_batches(data)
        for record in decode_records(data[position : position + header.size_bytes])
    ]


def read_values(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in records_of(read_bytes(log, offset))]


def read_one(log: PartitionLog, offset: int) -> Record:
    """The record with this offset, read with the smallest possible read."""
    read = log.read(offset, 1, up_to=log.log_end_offset, at_least_one=True, may_block=True)
    return next(record for record in records_of(read.data) if record.offset == offset)


def log_files(log: PartitionLog) -> list[Path]:
    return sorted(log.path.glob("*.log"))


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
