"""Reads over many partitions at once, waiting until there is enough."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.reading import ReadableCopy
from goqueue.broker.partitions.waiting import Ending, FetchWaiter
from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import RECORD_COUNT_PLACE, iterate_batches
from goqueue.model.errors import CorruptBatch, GoQueueError, UnknownTopicId
from goqueue.model.log import EpochEnd, FetchedPart, FetchPart, Isolation
from goqueue.model.names import NodeId
from goqueue.storage.log import LogRead

# Compaction merges what it empties, so one or two are usual; more are left to the next fetch.
EMPTY_READS_MAX: Final = 32

_NO_RECORDS: Final = bytes(4)

Finder = Callable[[str, int], Partition]
CopyFinder = Callable[[str, int], ReadableCopy]
# Who is closer to a reader at this offset; None where nobody is.
Nearest = Callable[[ReadableCopy, int], NodeId | None]

# Others get their turn after this many partitions: a few milliseconds.
SLICE_PARTS: Final = 256


async def fetch(
    find: CopyFinder,
    wanted: Sequence[FetchPart],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: Isolation,
    nearest: Nearest | None = None,
    until: Ending | None = None,
) -> list[FetchedPart]:
    """Answer in the order asked. Returns at once on enough bytes or any error, or when it is
    ended."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + max_wait_ms / 1000
    while True:
        parts = await _collect(find, wanted, max_bytes, isolation, nearest)
        have_bytes = sum(len(part.data) for part in parts)
        wait_s = give_up_at - loop.time()
        if until is not None and until.is_over:
            return until.left(parts)
        if have_bytes >= min_bytes or wait_s <= 0 or not wanted or any(map(is_settled, parts)):
            return parts
        waiter = FetchWaiter(min_bytes - have_bytes)
        try:
            watched = [find(part.topic, part.index) for part in wanted]
        except GoQueueError:
            # It went while others were read; the next look says so.
            continue
        # A cold read lets others run: look again at what was appended meanwhile.
        if all(
            partition.high_watermark == part.high_watermark
            for partition, part in zip(watched, parts, strict=True)
        ):
            await waiter.wait(watched if until is None else (*watched, until), wait_s)


def is_settled(part: FetchedPart) -> bool:
    """Whether the reader should hear of it at once."""
    return part.error is not None or part.diverging is not None or part.nearest is not None


async def _collect(
    find: CopyFinder,
    wanted: Sequence[FetchPart],
    max_bytes: int,
    isolation: Isolation,
    nearest: Nearest | None,
) -> list[FetchedPart]:
    parts: list[FetchedPart] = []
    left_bytes = max_bytes
    any_data = False
    for count, part in enumerate(wanted, 1):
        fetched = await read_part(
            find,
            part,
            min(part.max_bytes, left_bytes),
            isolation,
            at_least_one=not any_data,
            nearest=nearest,
        )
        any_data = any_data or bool(fetched.data)
        left_bytes -= len(fetched.data)
        parts.append(fetched)
        if count % SLICE_PARTS == 0:
            await asyncio.sleep(0)
    return parts


async def read_part(
    find: CopyFinder,
    part: FetchPart,
    max_bytes: int,
    isolation: Isolation,
    *,
    at_least_one: bool,
    nearest: Nearest | None = None,
) -> FetchedPart:
    partition: ReadableCopy | None = None
    try:
        partition = find(part.topic, part.index)
        if part.topic_id is not None and part.topic_id != partition.log.topic_id:
            raise UnknownTopicId(f"topic {part.topic!r} has another id than {part.topic_id}")
        partition.check_leader_epoch(part.leader_epoch)
        diverging = partition.divergence(part.offset, part.last_fetched_epoch)
        if diverging is not None:
            return _result(partition, part, diverging=diverging)
        if nearest is not None and (node := nearest(partition, part.offset)) is not None:
            return _result(partition, part, nearest=node)
        # The first readable batch is sent even when it is larger than the limits (KIP-74).
        found = await partition.read(
            part.offset,
            max(max_bytes, 1 if at_least_one else 0),
            isolation=isolation,
            at_least_one=at_least_one,
        )
        if found.data[RECORD_COUNT_PLACE] == _NO_RECORDS:
            found = await _pass_over(
                partition, found, part.offset, max_bytes, isolation, at_least_one=at_least_one
            )
        aborted = None
        if isolation is Isolation.READ_COMMITTED:
            aborted = partition.aborted_between(part.offset, found.next_offset)
        return _result(
            partition, part, data=found.data, aborted=aborted, next_offset=found.next_offset
        )
    except GoQueueError as error:
        return _result(partition, part, error=error)


async def _pass_over(
    partition: ReadableCopy,
    found: LogRead,
    offset: int,
    max_bytes: int,
    isolation: Isolation,
    *,
    at_least_one: bool,
) -> LogRead:
    """Leave out leading batches without records, which compaction leaves.

    librdkafka takes an answer of nothing else for one that its limit has cut: it asks for more and
    more, and reports MSG_SIZE_TOO_LARGE in the end. At the end of the log they are sent all the
    same, so that the reader gets there.
    """
    for _ in range(EMPTY_READS_MAX):
        for position, header in iterate_batches(found.data):
            if header.record_count:
                return LogRead(found.data[position:], found.next_offset)
        if found.next_offset >= partition.readable_end(isolation):
            return found
        # What is empty costs no space in the answer: the limit begins anew.
        try:
            more = await partition.read(
                found.next_offset, max_bytes, isolation=isolation, at_least_one=at_least_one
            )
        except CorruptBatch:
            # The reader is told when it gets there.
            return found
        if not more.data:
            return LogRead(b"", offset)
        found = more
        await asyncio.sleep(0)
    return found


def _result(
    partition: ReadableCopy | None,
    part: FetchPart,
    *,
    data: bytes = b"",
    aborted: tuple[AbortedTransaction, ...] | None = None,
    error: GoQueueError | None = None,
    diverging: EpochEnd | None = None,
    next_offset: int = -1,
    nearest: NodeId | None = None,
) -> FetchedPart:
    if partition is None:
        return FetchedPart(part.topic, part.index, error)
    return FetchedPart(
        part.topic,
        part.index,
        error,
        data,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        aborted,
        diverging,
        next_offset,
        nearest,
    )
