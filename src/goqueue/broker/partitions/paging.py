"""A partition read page by page, from an offset or between times, for readers of single records."""

from dataclasses import replace
from typing import Final

from goqueue.broker.partitions.committed_records import content_bytes, read_records
from goqueue.broker.partitions.fetching import Finder
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.tracing.reading import note_read
from goqueue.model.log import LATEST_TIMESTAMP, Isolation, PageRequest, RecordPage
from goqueue.model.rights import ReadableTopic

# Readers of single records ask for messages, not for what a transaction took back.
_ISOLATION: Final = Isolation.READ_COMMITTED
_NOT_FOUND: Final = -1
# A page that is still not full then goes out as it is.
MORE_READS_MAX: Final = 16


async def read_page(
    find: Finder, topic: ReadableTopic, index: int, wanted: PageRequest, consumer: str
) -> RecordPage:
    """What was committed. `consumer` is whom the stories of the messages name."""
    partition = find(topic, index)
    begin = await _begin(partition, wanted)
    end = None if wanted.until_ms is None else await _offset_at(partition, wanted.until_ms)
    is_over = end is not None and begin >= end
    page = await read_records(
        find,
        topic,
        index,
        begin,
        limit=1 if is_over else wanted.limit,
        max_bytes=wanted.max_bytes,
        max_wait_ms=0 if is_over else wanted.max_wait_ms,
        isolation=_ISOLATION,
    )
    if not is_over:
        page = await _filled(find, topic, index, wanted, page, end)
    page = _up_to(end, page, begin)
    note_read(partition.trace, page.records, consumer)
    return page


async def _filled(
    find: Finder,
    topic: ReadableTopic,
    index: int,
    wanted: PageRequest,
    page: RecordPage,
    end: int | None,
) -> RecordPage:
    """With what follows: a read ends with its segment, and with the epoch of its leader."""
    for _ in range(MORE_READS_MAX):
        records = page.records
        left_bytes = wanted.max_bytes - sum(map(content_bytes, records))
        is_at_end = page.next_offset >= (page.high_watermark if end is None else end)
        if not records or is_at_end or len(records) >= wanted.limit or left_bytes <= 0:
            break
        more = await read_records(
            find,
            topic,
            index,
            page.next_offset,
            limit=wanted.limit - len(records),
            max_bytes=left_bytes,
            isolation=_ISOLATION,
        )
        if more.next_offset == page.next_offset:
            break
        page = replace(
            more,
            records=records + more.records,
            passed_over=[*page.passed_over, *more.passed_over],
        )
    return page


async def _begin(partition: Partition, wanted: PageRequest) -> int:
    if wanted.offset is not None:
        return wanted.offset
    begin = await _offset_at(partition, wanted.since_ms)
    if begin is not None:
        return begin
    return (await partition.list_offset(LATEST_TIMESTAMP, isolation=_ISOLATION)).offset


async def _offset_at(partition: Partition, time_ms: int) -> int | None:
    """Of the first record of this time or later; None if there is none yet."""
    found = await partition.list_offset(time_ms, isolation=_ISOLATION)
    return None if found.offset == _NOT_FOUND else found.offset


def _up_to(end: int | None, page: RecordPage, begin: int) -> RecordPage:
    if end is None or page.next_offset <= end:
        return replace(page, until_offset=end)
    return replace(
        page,
        records=[record for record in page.records if record.offset < end],
        next_offset=max(begin, end),
        until_offset=end,
    )
