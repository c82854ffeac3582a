"""Single records, for readers that do not speak in batches."""

from typing import NamedTuple

from goqueue.broker.partitions.fetching import Finder, fetch
from goqueue.model.aborted import NOTHING_ABORTED, AbortedBatches
from goqueue.model.batch import iterate_batches
from goqueue.model.log import FetchedPart, FetchPart, Isolation, RecordPage
from goqueue.model.records import Record, decode_records
from goqueue.model.rights import ReadableTopic


class RecordRun(NamedTuple):
    """`next_offset` is where to go on, also past what was left out."""

    records: list[Record]
    next_offset: int


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
    run = committed_records(found, offset, limit)
    return RecordPage(
        records=run.records,
        next_offset=run.next_offset,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
    )


def committed_records(found: FetchedPart, offset: int, limit: int) -> RecordRun:
    """Up to `limit` records from `offset` on, without markers and what was aborted.

    A fetch tells which transactions in its range were aborted: none to a reader of everything.
    """
    records: list[Record] = []
    next_offset = offset
    aborted = AbortedBatches(found.aborted) if found.aborted else NOTHING_ABORTED
    view = memoryview(found.data)
    for position, header in iterate_batches(found.data):
        if len(records) >= limit:
            break
        if not header.is_control and not aborted.has(header):
            batch = view[position : position + header.size_bytes]
            wanted = [record for record in decode_records(batch) if record.offset >= offset]
            room = limit - len(records)
            records += wanted[:room]
            if len(wanted) > room:
                return RecordRun(records, records[-1].offset + 1)
        next_offset = max(next_offset, header.next_offset)
    return RecordRun(records, next_offset)
