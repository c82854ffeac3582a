"""Single records, for readers that do not speak in batches."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.fetching import Finder, fetch
from goqueue.model.aborted import NOTHING_ABORTED, AbortedBatches
from goqueue.model.batch import iterate_batches
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import CorruptBatch
from goqueue.model.log import FetchedPart, FetchPart, Isolation, PassedOver, RecordPage
from goqueue.model.names import topic_partition
from goqueue.model.records import Record
from goqueue.model.rights import ReadableTopic

# What a record is expected to take: every batch of a read is checked, also those that are not
# asked for. Where that is too little, the next read is larger.
RECORD_BYTES: Final = 1024
READ_GROWTH: Final = 4
# A page that is still not full then goes out as it is.
READS_MAX: Final = 17


class RecordRun(NamedTuple):
    """`next_offset` is where to go on, also past what was left out."""

    records: list[Record]
    next_offset: int
    passed_over: list[PassedOver]


async def read_records(
    find: Finder,
    topic: ReadableTopic,
    index: int,
    offset: int,
    *,
    limit: int,
    max_bytes: int,
    max_wait_ms: int = 0,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    until_ms: int | None = None,
) -> RecordPage:
    """Records from `offset` on, before the first of `until_ms` or later.

    `next_offset` is where to go on, also past what was left out. One read of the log is rarely all
    of it: it ends with its segment, with the epoch of its leader and with what is expected to be
    enough, and may hold nothing but markers and what was aborted.
    """
    page = RecordPage(records=[], next_offset=offset, high_watermark=-1, log_start_offset=-1)
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + max_wait_ms / 1000
    left_bytes, read_bytes = max_bytes, limit * RECORD_BYTES
    for _ in range(READS_MAX):
        is_empty = not page.records and not page.passed_over
        left_ms = (give_up_at - loop.time()) * 1000 if is_empty else 0
        wanted = FetchPart(topic, index, page.next_offset, min(read_bytes, left_bytes))
        [found] = await fetch(
            find,
            [wanted],
            max_wait_ms=max(round(left_ms), 0),
            min_bytes=1,
            max_bytes=wanted.max_bytes,
            isolation=isolation,
        )
        if found.error is not None:
            if is_empty:
                raise found.error
            # Whoever goes on from there hears of it.
            break
        partition = find(topic, index)
        run = await committed_records(
            found,
            page.next_offset,
            limit=limit - len(page.records),
            max_bytes=left_bytes,
            decoder=partition.decoder,
            bounds=partition.config.decoding_bounds,
        )
        has_moved, had = run.next_offset > page.next_offset, len(page.records)
        page = _with(page, found, run, until_ms)
        left_bytes -= sum(map(content_bytes, page.records[had:]))
        read_bytes *= READ_GROWTH
        is_full = len(page.records) >= limit or left_bytes <= 0
        if is_full or page.until_offset is not None or not has_moved:
            break
    return page


def _with(page: RecordPage, found: FetchedPart, run: RecordRun, until_ms: int | None) -> RecordPage:
    """The page, and what was found behind it."""
    late = next((each.offset for each in run.records if _is_late(each, until_ms)), None)
    if late is not None:
        run = before(late, run)
    return RecordPage(
        records=page.records + run.records,
        next_offset=run.next_offset,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        until_offset=late,
        passed_over=[*page.passed_over, *run.passed_over],
    )


def before(end: int, run: RecordRun) -> RecordRun:
    return RecordRun(
        [record for record in run.records if record.offset < end],
        min(run.next_offset, end),
        [passed for passed in run.passed_over if passed.first_offset < end],
    )


def _is_late(record: Record, until_ms: int | None) -> bool:
    return until_ms is not None and record.timestamp_ms >= until_ms


async def committed_records(
    found: FetchedPart,
    offset: int,
    *,
    limit: int,
    max_bytes: int,
    decoder: BatchDecoder,
    bounds: DecodingBounds,
) -> RecordRun:
    """Up to `limit` records from `offset` on, without markers and what was aborted.

    A packed batch may hold far more than `max_bytes`: the first record to go beyond is the last.
    What cannot be decoded is passed over. A fetch tells which transactions in its range were
    aborted: none to a reader of everything.
    """
    run = RecordRun([], offset, [])
    aborted = AbortedBatches(found.aborted) if found.aborted else NOTHING_ABORTED
    view = memoryview(found.data)
    left_bytes = max_bytes
    for position, header in iterate_batches(found.data):
        if len(run.records) >= limit or left_bytes <= 0:
            break
        if not header.is_control and not aborted.has(header):
            batch = view[position : position + header.size_bytes]
            wanted = partial(_pick, offset=offset, limit=limit - len(run.records), size=left_bytes)
            try:
                records, cut_at = await decoder.decode(batch, bounds, wanted)
            except CorruptBatch as error:
                decoder.complain(topic_partition(found.topic, found.index), header, error)
                passed = PassedOver(header.base_offset, header.last_offset, error.message)
                run.passed_over.append(passed)
            else:
                run.records.extend(records)
                if cut_at is not None:
                    return run._replace(next_offset=cut_at)
                left_bytes -= sum(map(content_bytes, records))
        run = run._replace(next_offset=max(run.next_offset, header.next_offset))
    return run


def _pick(
    records: Sequence[Record], *, offset: int, limit: int, size: int
) -> tuple[list[Record], int | None]:
    """Records from `offset` on, and the offset of the first that was one too many."""
    picked: list[Record] = []
    for record in records:
        if record.offset < offset:
            continue
        if len(picked) >= limit or size <= 0:
            return picked, record.offset
        picked.append(record)
        size -= content_bytes(record)
    return picked, None


def content_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
