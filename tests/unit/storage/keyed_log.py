"""A log of keyed records for compaction tests, and a compaction without a worker process."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import BatchHeader, assign, iterate_batches, read_header
from goqueue.model.control import Marker, MarkerType, encode_marker
from goqueue.model.records import COMPRESSION_CODES, NewRecord, Record, encode_records
from goqueue.storage.compaction.copying import compact
from goqueue.storage.compaction.plan import Compacted, CompactionPlan
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from tests.unit.storage.stored_log import NOW_MS, UnsyncedDisk, read_bytes, records_of

DAY_MS = 24 * 60 * 60 * 1000


class Keyed(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NOW_MS


def append_keyed(
    log: PartitionLog,
    *records: Keyed,
    compression: str = "uncompressed",
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    epoch: int = 0,
) -> BatchHeader:
    """Append one batch; `producer` is (id, epoch, sequence)."""
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    batch = encode_records(
        [NewRecord(key=r.key, value=r.value, timestamp_ms=r.timestamp_ms) for r in records],
        now_ms=NOW_MS,
        compression=COMPRESSION_CODES[compression],
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )
    return append_batch(log, batch, epoch)


def append_marker(
    log: PartitionLog, kind: MarkerType, *, producer_id: int, producer_epoch: int = 0
) -> BatchHeader:
    marker = Marker(kind, coordinator_epoch=1)
    batch = encode_marker(
        marker, producer_id=producer_id, producer_epoch=producer_epoch, now_ms=NOW_MS
    )
    return append_batch(log, batch, 0)


def append_batch(log: PartitionLog, batch: bytearray, epoch: int) -> BatchHeader:
    assign(batch, 0, log.log_end_offset, epoch)
    header = read_header(batch)
    log.append(batch, [(0, header)], now_ms=NOW_MS)
    return header


def close_segment(log: PartitionLog) -> None:
    """Make everything appended so far a matter for compaction."""
    log.reconfigure(log.config)
    assert log._segments.active.size_bytes
    log._segments.roll(NOW_MS)


def make_plan(
    log: PartitionLog,
    *,
    now_ms: int = NOW_MS,
    stable_offset: int | None = None,
    aborted: Sequence[AbortedTransaction] = (),
    producers: dict[int, tuple[int, ...]] | None = None,
) -> CompactionPlan:
    stable = log.log_end_offset if stable_offset is None else stable_offset
    dirt = log.compaction.measure(log.config, stable_offset=stable, now_ms=now_ms)
    return log.compaction.plan(
        dirt, log.config, now_ms=now_ms, aborted=aborted, producers=producers or {}
    )


def copy(plan: CompactionPlan, disk: Disk | None = None) -> Compacted:
    return compact(plan, disk or UnsyncedDisk(), lambda _: None)


def swap_all(log: PartitionLog, *, due_ms: int = 0) -> None:
    while log.compaction.rename_next():
        log.compaction.show_next(due_ms=due_ms)


def take_in(
    log: PartitionLog, plan: CompactionPlan, compacted: Compacted, *, now_ms: int = NOW_MS
) -> None:
    assert log.compaction.accept(plan, compacted)
    assert log.compaction.commit(compacted, log.config, now_ms=now_ms)
    swap_all(log, due_ms=now_ms)
    log.compaction.finish()


def compact_log(
    log: PartitionLog,
    *,
    now_ms: int = NOW_MS,
    stable_offset: int | None = None,
    aborted: Sequence[AbortedTransaction] = (),
    producers: dict[int, tuple[int, ...]] | None = None,
) -> Compacted:
    plan = make_plan(
        log, now_ms=now_ms, stable_offset=stable_offset, aborted=aborted, producers=producers
    )
    compacted = copy(plan)
    take_in(log, plan, compacted, now_ms=now_ms)
    return compacted


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    return [header for _, header in iterate_batches(read_bytes(log))]


def data_records(log: PartitionLog) -> list[Record]:
    """Every record but the markers."""
    data = read_bytes(log)
    return [
        record
        for position, header in iterate_batches(data)
        if not header.is_control
        for record in records_of(data[position : position + header.size_bytes])
    ]


def entries(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in data_records(log)]
