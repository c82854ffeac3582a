"""A partition read page by page, from an offset or between times, for readers of single records."""

from dataclasses import replace
from typing import Final

from goqueue.broker.partitions.committed_records import read_records
from goqueue.broker.partitions.fetching import Finder
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.tracing.reading import note_read
from goqueue.model.log import LATEST_TIMESTAMP, Isolation, PageRequest, RecordPage
from goqueue.model.rights import ReadableTopic

# Readers of single records ask for messages, not for what a transaction took back.
_ISOLATION: Final = Isolation.READ_COMMITTED
_NOT_FOUND: Final = -1


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
    page = _up_to(end, page, begin)
    note_read(partition.trace, page.records, consumer)
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
