"""A partition read page by page, from an offset or between times, for readers of single records."""

from dataclasses import replace
from typing import Final

from goqueue.broker.partitions.committed_records import RecordRun, before, read_records
from goqueue.broker.partitions.fetching import Finder
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.tracing.reading import note_read
from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import iterate_batches
from goqueue.model.log import LATEST_TIMESTAMP, Isolation, PageRequest, RecordPage
from goqueue.model.rights import ReadableTopic

# Readers of single records ask for messages, not for what a transaction took back.
_ISOLATION: Final = Isolation.READ_COMMITTED
_NOT_FOUND: Final = -1
# Looks for a message of a time, each behind what was aborted. A page that begins with something
# else has all messages of that time, and some before it where times are not in order.
LOOKS_MAX: Final = 16


async def read_page(
    find: Finder, topic: ReadableTopic, index: int, wanted: PageRequest, consumer: str
) -> RecordPage:
    """What was committed. `consumer` is whom the stories of the messages name."""
    partition = find(topic, index)
    begin = await _begin(partition, wanted)
    end = None if wanted.until_ms is None else await _known_end(partition, wanted.until_ms)
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
        until_ms=wanted.until_ms,
    )
    if end is not None:
        page = _up_to(end, page, begin)
    note_read(partition.trace, page.records, consumer)
    return page


async def _begin(partition: Partition, wanted: PageRequest) -> int:
    if wanted.offset is not None:
        return wanted.offset
    begin = await _first_message(partition, wanted.since_ms)
    if begin is not None:
        return begin
    return (await partition.list_offset(LATEST_TIMESTAMP, isolation=_ISOLATION)).offset


async def _first_message(partition: Partition, since_ms: int) -> int | None:
    """Of this time or later, or at this end of the log."""
    look_from = 0
    for _ in range(LOOKS_MAX):
        found = await partition.list_offset(since_ms, isolation=_ISOLATION, messages_from=look_from)
        if found.offset == _NOT_FOUND:
            return None
        behind = None if since_ms < 0 else await _behind_no_message(partition, found.offset)
        if behind is None:
            break
        look_from = behind
    return found.offset


async def _known_end(partition: Partition, until_ms: int) -> int | None:
    """The offset of the first message of this time or later, if the first record that has such a
    time is a message. A marker has the time at which it was written, and may stand long before;
    then the page that gets to the end says where it is. To look for it with every page would take
    as long as there are markers.
    """
    found = await partition.list_offset(until_ms, isolation=_ISOLATION)
    if found.offset == _NOT_FOUND:
        return None
    return found.offset if await _behind_no_message(partition, found.offset) is None else None


async def _behind_no_message(partition: Partition, offset: int) -> int | None:
    """Where the batch with this offset ends, if it is a marker or was aborted."""
    look = await partition.look(offset, 1, isolation=_ISOLATION)
    for _, header in iterate_batches(look.data):
        aborted = AbortedBatches(partition.aborted_between(offset, header.next_offset))
        return header.next_offset if header.is_control or aborted.has(header) else None
    return None


def _up_to(end: int, page: RecordPage, begin: int) -> RecordPage:
    """A batch that cannot be decoded may have been known for the end, without its records."""
    run = before(end, RecordRun(page.records, page.next_offset, list(page.passed_over)))
    return replace(
        page,
        records=run.records,
        next_offset=max(begin, run.next_offset),
        until_offset=end,
        passed_over=run.passed_over,
    )
