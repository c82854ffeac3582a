"""Sending to FIFO queues: each deduplication id once in five minutes, in order within a group."""

import asyncio
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.doors.sqs.deduplication import WINDOW_MS, DeduplicationWindow
from goqueue.doors.sqs.delays import delayed_messages
from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.sqs.message_headers import SystemFacts, sequence_number, system_facts
from goqueue.doors.sqs.new_messages import PreparedMessage
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord, Record

# One read of the log when the window is found again.
HISTORY_READ_BYTES: Final = 4 * 1024 * 1024
HISTORY_READ_RECORDS: Final = 10_000


@dataclass(eq=False, slots=True)
class TakenMessage:
    """What a first send of an id got, and every later one gets as well."""

    message_id: str
    sequence_number: str
    # Set once stored; a duplicate that comes before waits for it.
    stored: asyncio.Future[None] | None


class FifoSender:
    """One queue's window and its last sequence number."""

    def __init__(self, broker: Node, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self._broker = broker
        self._window: DeduplicationWindow[TakenMessage] = DeduplicationWindow()
        self._last_ms = 0
        self._counter = 0
        self._loading: asyncio.Task[None] | None = None

    async def load(self, queue: SqsQueue) -> None:
        """Find the window again in the log; the first send after a start waits for it."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._read_history(queue))
        if not self._loading.done():
            await asyncio.shield(self._loading)
        elif self._loading.exception() is not None:
            failed, self._loading = self._loading, None
            failed.result()

    async def _read_history(self, queue: SqsQueue) -> None:
        since_ms = self._broker.clock_ms() - WINDOW_MS
        found: list[tuple[int, SystemFacts]] = []

        def note(record: Record | NewRecord) -> None:
            facts = system_facts(record.headers)
            found.append((facts.sent_ms(record.timestamp_ms), facts))

        for part in queue.topic.partitions:
            listed = await self._broker.list_offset(queue.name, part.index, since_ms)
            offset = listed.offset
            while offset >= 0:
                page = await self._broker.read_records(
                    queue.name,
                    part.index,
                    offset,
                    limit=HISTORY_READ_RECORDS,
                    max_bytes=HISTORY_READ_BYTES,
                )
                for record in page.records:
                    note(record)
                offset = page.next_offset if page.next_offset > offset else -1
        # A queue with DelaySeconds has messages that are not in the log yet.
        async for messages in delayed_messages(self._broker, queue):
            for message in messages:
                note(message.record)
        for sent_ms, facts in sorted(found, key=lambda each: each[0]):
            # A clock that was put back must not make numbers shrink.
            self._last_ms = max(self._last_ms, sent_ms)
            if facts.deduplication_id is None or facts.message_id is None:
                continue
            number = facts.sequence_number or sequence_number(sent_ms, 0)
            key = _key(queue, facts.group_id, facts.deduplication_id)
            self._window.take(key, TakenMessage(facts.message_id, number, None), sent_ms)

    def take(self, queue: SqsQueue, message: PreparedMessage) -> tuple[TakenMessage, bool]:
        """The message under this id, and whether it is this one, to be stored now."""
        now_ms = self._broker.clock_ms()
        assert message.deduplication_id is not None
        key = _key(queue, message.group_id, message.deduplication_id)
        earlier = self._window.find(key, now_ms)
        if earlier is not None:
            return earlier, False
        if self._window.is_full(now_ms):
            raise SqsError(ErrorKind.REQUEST_THROTTLED, "The queue has too many deduplication ids.")
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taken = TakenMessage(message.message_id, self._next_number(now_ms), stored)
        self._window.take(key, taken, now_ms)
        return taken, True

    def settle(
        self,
        queue: SqsQueue,
        message: PreparedMessage,
        taken: TakenMessage,
        error: Exception | None,
    ) -> None:
        """Tell those who wait; a message that was not stored may be sent again."""
        stored, taken.stored = taken.stored, None
        if error is not None:
            assert message.deduplication_id is not None
            key = _key(queue, message.group_id, message.deduplication_id)
            self._window.give_back(key, taken)
        if stored is None or stored.done():
            return
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)
            # Perhaps nobody waits; that is fine.
            stored.exception()

    def _next_number(self, now_ms: int) -> str:
        if now_ms > self._last_ms:
            self._last_ms, self._counter = now_ms, 0
        else:
            self._counter += 1
        return sequence_number(self._last_ms, self._counter)


def _key(queue: SqsQueue, group_id: str | None, deduplication_id: str) -> str:
    # The separator cannot be part of either id.
    return f"{group_id}\n{deduplication_id}" if queue.is_group_scoped else deduplication_id
