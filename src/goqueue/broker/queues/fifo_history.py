"""Finds the messages of a FIFO queue again: those of the last five minutes, or a single one.

A delayed message waits first, is then being delivered, and is in the log at last. These three are
looked through in this order, so that no message slips by while it moves on.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.queues.queues import Queues
from goqueue.broker.reading.log_anywhere import LogAnywhere
from goqueue.model.delays import LIST_MAX, DelayedPage
from goqueue.model.digits import number_in
from goqueue.model.log import MAX_TIMESTAMP
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.fifo import DEDUPLICATION_MS, number_at, time_of
from goqueue.model.queues.sqs_headers import SystemFacts, system_facts
from goqueue.model.queues.sqs_queue import SQS_GROUP, SqsQueue
from goqueue.model.records import NewRecord, Record
from goqueue.model.rights import ReadableTopic
from goqueue.state.queues.fifo_window import Taken

_GROUP: Final = own_group(SQS_GROUP, OwnWork.FIFO_WINDOW)
# Those of `number_text`.
SEQUENCE_NUMBER_DIGITS: Final = 20
# One read of the log.
READ_BYTES: Final = 4 * 1024 * 1024
READ_RECORDS: Final = 10_000
# Any producer may write headers. Numbers of a time that is further ahead are none of ours, and
# would make all later ones as large; clocks are put back by less.
AHEAD_MAX_MS: Final = 86_400_000


class HistoryHost(Protocol):
    """The part of the broker that is read."""

    clock_ms: Callable[[], int]
    log_anywhere: LogAnywhere
    queues: Queues


class DelayedMessages(Protocol):
    """The messages that are not in their topic yet."""

    async def list_pending(
        self, topic: ReadableTopic, *, after: str | None = None, limit: int = LIST_MAX
    ) -> DelayedPage: ...
    async def being_delivered(self, topic: ReadableTopic, index: int) -> list[NewRecord]: ...


class FifoHistory:
    def __init__(self, host: HistoryHost, delayed: DelayedMessages) -> None:
        self._host = host
        self._delayed = delayed

    async def read(self, queue: SqsQueue) -> list[Taken]:
        """What the window was made of, in the order of numbers."""
        now_ms = self._host.clock_ms()
        partitions = range(len(queue.topic.partitions))
        since_ms = min(now_ms, await self._newest_ms(queue)) - DEDUPLICATION_MS
        found: set[Taken] = set()
        async for record in self._records(queue, partitions, since_ms):
            taken = _taken(queue, record)
            if taken is not None and time_of(taken.number) < now_ms + AHEAD_MAX_MS:
                found.add(taken)
        return sorted(found, key=lambda taken: taken.number)

    async def _newest_ms(self, queue: SqsQueue) -> int:
        """When the last message was sent: a clock that is ahead and put back later must not make
        the window forget it, nor its number."""
        newest_ms = 0
        topic = own_read(queue.name, OwnWork.FIFO_WINDOW)
        for index in range(len(queue.topic.partitions)):
            found = await self._host.log_anywhere.list_offset(topic, index, MAX_TIMESTAMP)
            newest_ms = max(newest_ms, found.timestamp_ms)
        return newest_ms

    async def has(self, queue: SqsQueue, group_id: str, taken: Taken) -> bool:
        """Whether a message is stored, be it that it still waits to be delivered."""
        index = partition_for_key(group_id.encode(), len(queue.topic.partitions))
        async for record in self._records(queue, [index], time_of(taken.number)):
            if system_facts(record.headers).message_id == taken.message_id:
                return True
        return False

    async def _records(
        self, queue: SqsQueue, partitions: Sequence[int], since_ms: int
    ) -> AsyncIterator[Record | NewRecord]:
        topic = own_read(queue.name, OwnWork.FIFO_WINDOW)
        after: str | None = None
        while True:
            waiting = await self._delayed.list_pending(topic, after=after, limit=LIST_MAX)
            for failure in waiting.missing.values():
                raise failure
            for message in waiting.messages:
                yield message.record
            after = waiting.next_after
            if after is None:
                break
        for index in partitions:
            for delivered in await self._delayed.being_delivered(topic, index):
                yield delivered
        purged = await self._host.queues.starts(_GROUP, topic)
        for index in partitions:
            log = self._host.log_anywhere
            # What was appended last must be committed first.
            await log.ends(topic, index, is_settled=True)
            offset = (await log.list_offset(topic, index, since_ms)).offset
            if offset >= 0:
                # What was purged is as if it had never been sent.
                offset = max(offset, purged.get(index, 0))
            while offset >= 0:
                page = await log.read_records(
                    topic, index, offset, limit=READ_RECORDS, max_bytes=READ_BYTES
                )
                for record in page.records:
                    yield record
                offset = page.next_offset if page.next_offset > offset else -1


def window_key(queue: SqsQueue, group_id: str | None, deduplication_id: str) -> str:
    # The separator cannot be part of either id.
    return f"{group_id}\n{deduplication_id}" if queue.is_group_scoped else deduplication_id


def _taken(queue: SqsQueue, record: Record | NewRecord) -> Taken | None:
    """None for records of other producers."""
    facts = system_facts(record.headers)
    if facts.deduplication_id is None or facts.message_id is None:
        return None
    key = window_key(queue, facts.group_id, facts.deduplication_id)
    return Taken(key, facts.message_id, _number(facts, record.timestamp_ms))


def _number(facts: SystemFacts, record_ms: int | None) -> int:
    number = number_in(facts.sequence_number, SEQUENCE_NUMBER_DIGITS)
    return number_at(facts.sent_ms(record_ms)) if number is None else number
