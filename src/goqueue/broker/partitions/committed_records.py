"""Single records, for readers that do not speak in batches."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

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
) -> RecordPage:
    """Records from `offset` on. `next_offset` is where to go on, also past what was left out."""
    [found] = await fetch(
        find,
        [FetchPart(topic, index, offset, max_bytes)],
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation=isolation,
    )
    if found.error is not None:
        raise found.error
    partition = find(topic, index)
    run = await committed_records(
        found,
        offset,
        limit=limit,
        max_bytes=max_bytes,
        decoder=partition.decoder,
        bounds=partition.config.decoding_bounds,
    )
    return RecordPage(
        records=run.records,
        next_offset=run.next_offset,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        passed_over=run.passed_over,
    )


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
