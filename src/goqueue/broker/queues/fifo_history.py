"""Finds the messages of a FIFO queue again: those of the last five minutes, or a single one.

Each partition is read by its leader, which first ends the turns of whoever wrote there before
(`broker/partitions/sole_writer.py`). A delayed message waits first, is then being delivered, and is
in the log at last. These three are looked through in this order, so that no message slips by while
it moves on.
"""

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from goqueue.broker.calls.calls import Calls, before_anything_is_done
from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.partitions.log import Log
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.queues import Queues
from goqueue.model.calls import Method
from goqueue.model.delays import DelayedId, DelayedPage
from goqueue.model.digits import number_in
from goqueue.model.log import MAX_TIMESTAMP, Isolation, RecordPage
from goqueue.model.names import topic_partition
from goqueue.model.publishing import WriterTurn, before_term
from goqueue.model.queues.fifo import DEDUPLICATION_MS, number_at, time_of
from goqueue.model.queues.sqs_headers import SystemFacts, system_facts
from goqueue.model.queues.sqs_queue import SQS_GROUP, SqsQueue
from goqueue.model.records import NewRecord, Record
from goqueue.model.rights import ReadableTopic
from goqueue.pace import in_slices, next_slice
from goqueue.state.queues.fifo_window import Taken

_GROUP: Final = own_group(SQS_GROUP, OwnWork.FIFO_WINDOW)
# Those of `number_text`.
SEQUENCE_NUMBER_DIGITS: Final = 20
# One read of the log: some milliseconds of the event loop, then others have their turn.
READ_BYTES: Final = 128 * 1024
READ_RECORDS: Final = 200
# In one answer; some hundred bytes each.
PAGE_MESSAGES: Final = 5_000
# What was appended last must be committed first; a disk that takes longer has failed.
COMMIT_TIMEOUT_MS: Final = 30_000
# Any producer may write headers. Numbers of a time that is further ahead are none of ours, and
# would make all later ones as large; clocks are put back by less.
AHEAD_MAX_MS: Final = 86_400_000
_NOT_FOUND: Final = -1


class EndTurns(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    over: WriterTurn


class Ended(NamedTuple):
    """Everything that the turns stored lies below the end. The newest message is of this time."""

    end_offset: int
    newest_ms: int


class PastCursor(NamedTuple):
    """Where to go on: among those that wait, or in the log."""

    after: DelayedId | None = None
    offset: int | None = None


class ReadPast(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    over: WriterTurn
    since_ms: int
    up_to: int
    cursor: PastCursor


class PastMessage(NamedTuple):
    group_id: str | None
    deduplication_id: str
    message_id: str
    number: int


class PastPage(NamedTuple):
    """Without a cursor it is the last."""

    messages: list[PastMessage]
    cursor: PastCursor | None


class LookFor(msgspec.Struct, frozen=True):
    topic: ReadableTopic
    index: int
    over: WriterTurn
    message_id: str


END_TURNS: Final = Method("fifo.end_turns", EndTurns, Ended, is_repeatable=True)
PAST: Final = Method("fifo.past", ReadPast, PastPage, waits=True, is_repeatable=True)
HAS: Final = Method("fifo.has", LookFor, bool, waits=True, is_repeatable=True)


class HistoryHost(Protocol):
    """The part of the broker that is read."""

    clock_ms: Callable[[], int]
    log: Log
    queues: Queues

    def partition(self, topic: str, index: int) -> Partition: ...


class DelayedMessages(Protocol):
    """The messages that are not in their topic yet, of partitions that are led here."""

    async def of_partition(
        self, topic: ReadableTopic, index: int, after: DelayedId | None = None
    ) -> DelayedPage: ...
    async def being_delivered(self, topic: ReadableTopic, index: int) -> list[NewRecord]: ...


class FifoHistory:
    def __init__(self, host: HistoryHost, delayed: DelayedMessages, calls: Calls) -> None:
        self._host = host
        self._delayed = delayed
        self._calls = calls
        calls.serve(END_TURNS, self._end_turns_here)
        calls.serve(PAST, self._past_here)
        calls.serve(HAS, self._has_here)

    # --- anywhere -------------------------------------------------------------------------

    async def read(self, queue: SqsQueue, term: int) -> list[Taken]:
        """What the window was made of, in the order of numbers; nobody of a term before adds to it
        from now on."""
        topic = own_read(queue.name, OwnWork.FIFO_WINDOW)
        partitions = range(len(queue.topic.partitions))
        over = before_term(term)
        ends = await asyncio.gather(
            *(
                self._calls.ask(
                    END_TURNS, topic_partition(topic, index), EndTurns(topic, index, over)
                )
                for index in partitions
            )
        )
        now_ms = self._host.clock_ms()
        # A clock that is ahead and put back later, or is that of another broker, must not make the
        # window forget the last message, nor its number.
        newest_ms = max(end.newest_ms for end in ends)
        since_ms = min(now_ms, newest_ms) - DEDUPLICATION_MS
        pasts = await asyncio.gather(
            *(
                self._past(ReadPast(topic, index, over, since_ms, end.end_offset, PastCursor()))
                for index, end in zip(partitions, ends, strict=True)
            )
        )
        messages = sorted(itertools.chain.from_iterable(pasts), key=operator.attrgetter("number"))
        # A message that was delivered meanwhile may be in it twice.
        return [
            Taken(window_key(queue, group_id, deduplication_id), message_id, number)
            async for group_id, deduplication_id, message_id, number in in_slices(messages)
            if time_of(number) < now_ms + AHEAD_MAX_MS
        ]

    async def _past(self, request: ReadPast) -> list[PastMessage]:
        """Page by page."""
        place = topic_partition(request.topic, request.index)
        found: list[PastMessage] = []
        cursor: PastCursor | None = request.cursor
        while cursor is not None:
            page = await self._calls.ask(
                PAST, place, msgspec.structs.replace(request, cursor=cursor)
            )
            found += page.messages
            cursor = page.cursor
        return found

    async def has(self, queue: SqsQueue, index: int, taken: Taken, term: int) -> bool:
        """Whether a message is stored, be it that it still waits to be delivered. If not, it never
        will be."""
        topic = own_read(queue.name, OwnWork.FIFO_WINDOW)
        request = LookFor(topic, index, WriterTurn(term, taken.number), taken.message_id)
        return await self._calls.ask(HAS, topic_partition(topic, index), request)

    # --- here -----------------------------------------------------------------------------

    async def _end_turns_here(self, request: EndTurns) -> Ended:
        partition = await self._ended(request.topic, request.index, request.over)
        end_offset = partition.log_end_offset
        await partition.wait_committed(end_offset, COMMIT_TIMEOUT_MS)
        newest = await partition.list_offset(MAX_TIMESTAMP, isolation=Isolation.READ_UNCOMMITTED)
        return Ended(end_offset, newest.timestamp_ms)

    async def _ended(self, topic: ReadableTopic, index: int, over: WriterTurn) -> Partition:
        partition = self._host.partition(topic, index)
        await partition.sole_writer.end(over)
        return partition

    async def _past_here(self, request: ReadPast) -> PastPage:
        topic, index, cursor = request.topic, request.index, request.cursor
        # Once more: another broker may lead by now.
        partition = await self._ended(topic, index, request.over)
        if cursor.offset is None:
            waiting = await self._delayed.of_partition(topic, index, cursor.after)
            found = list(_past(message.record for message in waiting.messages))
            if waiting.next_after is not None:
                return PastPage(found, PastCursor(after=DelayedId.parse(waiting.next_after)))
            found += _past(await self._delayed.being_delivered(topic, index))
            offset = await self._offset_at(partition, topic, request.since_ms)
            return PastPage(found, None if offset == _NOT_FOUND else PastCursor(offset=offset))
        await partition.wait_committed(request.up_to, COMMIT_TIMEOUT_MS)
        found = []
        offset = cursor.offset
        async for page in self._pages(topic, index, offset, request.up_to):
            found += _past(page.records)
            offset = page.next_offset
            if len(found) >= PAGE_MESSAGES:
                return PastPage(found, PastCursor(offset=offset))
        return PastPage(found, None)

    async def _pages(
        self, topic: ReadableTopic, index: int, offset: int, up_to: int
    ) -> AsyncIterator[RecordPage]:
        while offset < up_to:
            page = await self._host.log.read_records(
                topic, index, offset, limit=READ_RECORDS, max_bytes=READ_BYTES
            )
            yield page
            if page.next_offset == offset:
                return
            offset = page.next_offset
            await next_slice()

    async def _has_here(self, request: LookFor) -> bool:
        partition = await self._ended(request.topic, request.index, request.over)
        since_ms = time_of(request.over.number)
        async for record in self._records(partition, request.topic, since_ms):
            if system_facts(record.headers).message_id == request.message_id:
                return True
        return False

    async def _records(
        self, partition: Partition, topic: ReadableTopic, since_ms: int
    ) -> AsyncIterator[Record | NewRecord]:
        index = partition.name.partition
        after: DelayedId | None = None
        while True:
            waiting = await self._delayed.of_partition(topic, index, after)
            for message in waiting.messages:
                yield message.record
            if waiting.next_after is None:
                break
            after = DelayedId.parse(waiting.next_after)
        for delivered in await self._delayed.being_delivered(topic, index):
            yield delivered
        up_to = partition.log_end_offset
        await partition.wait_committed(up_to, COMMIT_TIMEOUT_MS)
        offset = await self._offset_at(partition, topic, since_ms)
        if offset == _NOT_FOUND:
            return
        async for page in self._pages(topic, index, offset, up_to):
            for record in page.records:
                yield record

    async def _offset_at(self, partition: Partition, topic: ReadableTopic, since_ms: int) -> int:
        """Of the first message of this time or later that was not purged."""
        listed = await partition.list_offset(since_ms, isolation=Isolation.READ_UNCOMMITTED)
        if listed.offset == _NOT_FOUND:
            return _NOT_FOUND
        # What was purged is as if it had never been sent.
        registry = self._host.queues.registry
        key = registry.key(_GROUP, topic, partition.name.partition)
        with before_anything_is_done():
            shard = await registry.state.known_shard(key)
        purged = None if shard is None else shard.machine.start(key)
        return listed.offset if purged is None else max(listed.offset, purged)


def window_key(queue: SqsQueue, group_id: str | None, deduplication_id: str) -> str:
    # The separator cannot be part of either id.
    return f"{group_id}\n{deduplication_id}" if queue.is_group_scoped else deduplication_id


def _past(records: Iterable[Record | NewRecord]) -> Iterable[PastMessage]:
    """Without records of other producers."""
    for record in records:
        facts = system_facts(record.headers)
        if facts.deduplication_id is not None and facts.message_id is not None:
            yield PastMessage(
                facts.group_id,
                facts.deduplication_id,
                facts.message_id,
                _number(facts, record.timestamp_ms),
            )


def _number(facts: SystemFacts, record_ms: int | None) -> int:
    number = number_in(facts.sequence_number, SEQUENCE_NUMBER_DIGITS)
    return number_at(facts.sent_ms(record_ms)) if number is None else number
