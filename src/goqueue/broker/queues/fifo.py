"""Sending to FIFO queues: each deduplication id once in five minutes, numbers that only grow.

Runs one window per queue, found again in the log when the first message after a start is sent. Runs
where the queue's first partition is led, so that there is one window for all partitions.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence, Set
from typing import Any, Final, Protocol
from uuid import UUID

from goqueue.broker.queues.fifo_history import FifoHistory, window_key
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.model.errors import (
    AccessDenied,
    GoQueueError,
    InvalidRequest,
    PolicyViolation,
    ShuttingDown,
    UnknownTopic,
)
from goqueue.model.names import TopicPartition
from goqueue.model.publishing import Outcome
from goqueue.model.queues.fifo import FifoMessage, SentOnce, number_text, time_of
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord
from goqueue.model.rights import DeletableTopic, WritableTopic
from goqueue.state.queues.fifo_window import FifoWindow, Taken

# What is refused with one of these was not appended; after any other error nobody knows.
_NOT_STORED: Final = (InvalidRequest, PolicyViolation, UnknownTopic, AccessDenied)


class Publishing(Protocol):
    """The one way of single records into topics."""

    async def publish(
        self,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
    ) -> list[Outcome]: ...


class _Queue:
    """The window of one queue, and what is under way."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.window = FifoWindow()
        self.loading: asyncio.Task[None] | None = None
        # Done once the message is stored, or is not; a repetition that comes before waits for it.
        self.storing: dict[Taken, asyncio.Future[None]] = {}
        # Messages whose append failed in a way that leaves open whether they are stored.
        # With the group of each, which says in which partition to look for it.
        self.in_doubt: dict[Taken, str] = {}
        self.looking = asyncio.Lock()

    def doubt(self, taken: Taken, group_id: str) -> None:
        """Until it is sent again, or for as long as its id is taken."""
        while self.in_doubt:
            oldest = next(iter(self.in_doubt))
            if time_of(taken.number) < oldest.free_ms:
                break
            del self.in_doubt[oldest]
        self.in_doubt[taken] = group_id

    def first_in_doubt(self, keys: Set[str]) -> tuple[Taken, str] | None:
        return next((each for each in self.in_doubt.items() if each[0].key in keys), None)


class FifoSending:
    def __init__(
        self,
        catalogue: SqsCatalogue,
        publishing: Publishing,
        history: FifoHistory,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._catalogue = catalogue
        self._publishing = publishing
        self._history = history
        self._clock_ms = clock_ms
        self._queues: dict[str, _Queue] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def send(
        self, topic: WritableTopic, messages: Sequence[FifoMessage]
    ) -> list[SentOnce | GoQueueError]:
        """Store messages whose ids are free; say of each what its id stands for now."""
        queue = self._catalogue.find(topic)
        sending = await self._loaded(queue)
        doubts = await self._settle_doubts(queue, sending, messages)
        answers: list[Taken | GoQueueError] = []
        fresh: list[tuple[FifoMessage, Taken]] = []
        now_ms = self._clock_ms()
        for message in messages:
            key = _key(queue, message)
            try:
                if key in doubts:
                    raise doubts[key]
                taken = sending.window.decide(key, message.message_id, now_ms)
            except GoQueueError as error:
                answers.append(error)
                continue
            answers.append(taken)
            if taken.message_id == message.message_id:
                sending.window.replay(taken)
                sending.storing[taken] = asyncio.get_running_loop().create_future()
                fresh.append((message, taken))
        # What is under way now; once stored it is no longer there to be waited for.
        stored = {
            taken: sending.storing[taken]
            for taken in answers
            if isinstance(taken, Taken) and taken in sending.storing
        }
        if fresh:
            # A task of its own: a client that goes away must not leave open what is stored.
            self._spawn(self._store(topic, sending, fresh))
        if stored:
            await asyncio.wait(stored.values())
        return [self._answer(taken, stored) for taken in answers]

    def _answer(
        self,
        taken: Taken | GoQueueError,
        stored: dict[Taken, "asyncio.Future[None]"],
    ) -> SentOnce | GoQueueError:
        if isinstance(taken, GoQueueError):
            return taken
        future = stored.get(taken)
        error = None if future is None else future.exception()
        if isinstance(error, GoQueueError):
            return error
        if error is not None:
            raise error
        return SentOnce(taken.message_id, number_text(taken.number))

    def partition_led(self, place: TopicPartition) -> None:
        """The first message that is sent has the window read."""

    def partition_lost(self, place: TopicPartition) -> None:
        """The next leader has another window; what is under way here ends with an error."""
        self._queues.pop(place.topic, None)

    async def purge(self, topic: DeletableTopic) -> None:
        """Empty a queue of either kind; ids that were sent before may be sent again."""
        sending = self._queues.get(topic)
        if sending is not None and sending.loading is not None and not sending.loading.done():
            # What it finds in the log now would be taken for good.
            await asyncio.gather(asyncio.shield(sending.loading), return_exceptions=True)
        last_number = sending.window.last_number if sending is not None else 0
        await self._catalogue.purge(topic)
        if sending is not None:
            sending.window.forget(last_number)
            sending.in_doubt.clear()

    async def close(self) -> None:
        """Called with the doors closed: nobody waits for what is still under way."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    # --- storing --------------------------------------------------------------------------

    async def _store(
        self, topic: WritableTopic, sending: _Queue, fresh: Sequence[tuple[FifoMessage, Taken]]
    ) -> None:
        records = [message.record(taken.number) for message, taken in fresh]
        due: list[int | None] | None = None
        if any(message.delay_ms for message, _ in fresh):
            due = [
                time_of(taken.number) + message.delay_ms if message.delay_ms else None
                for message, taken in fresh
            ]
        outcomes: Sequence[Outcome | BaseException]
        try:
            outcomes = await self._publishing.publish(topic, records, due=due)
        except asyncio.CancelledError:
            outcomes = [ShuttingDown("the broker is shutting down")] * len(fresh)
        except Exception as error:
            outcomes = [error] * len(fresh)
        for (message, taken), outcome in zip(fresh, outcomes, strict=True):
            _settle(sending, message, taken, outcome)

    async def _settle_doubts(
        self, queue: SqsQueue, sending: _Queue, messages: Sequence[FifoMessage]
    ) -> dict[str, GoQueueError]:
        """Look for what is in doubt and is sent again. Why that failed, by the keys concerned."""
        if not sending.in_doubt:
            return {}
        failures: dict[str, GoQueueError] = {}
        keys = {_key(queue, message) for message in messages}
        async with sending.looking:
            # Others may end in doubt while one is looked for: until there is none left.
            while doubtful := sending.first_in_doubt(keys - failures.keys()):
                taken, group_id = doubtful
                try:
                    is_stored = await self._history.has(queue, group_id, taken)
                except GoQueueError as error:
                    failures[taken.key] = error
                    continue
                if not is_stored:
                    sending.window.withdraw(taken)
                sending.in_doubt.pop(taken, None)
        return failures

    # --- windows --------------------------------------------------------------------------

    async def _loaded(self, queue: SqsQueue) -> _Queue:
        """The queue's window, found again in the log; the first send after a start waits."""
        sending = self._queues.get(queue.name)
        if sending is None or sending.topic_id != queue.topic.id:
            there = set(self._catalogue.names())
            self._queues = {name: each for name, each in self._queues.items() if name in there}
            sending = self._queues[queue.name] = _Queue(queue.topic.id)
        if sending.loading is None or _has_failed(sending.loading):
            sending.loading = asyncio.create_task(self._load(queue, sending))
        if not sending.loading.done():
            # Shielded: a client that goes away must not stop the loading for all others.
            await asyncio.shield(sending.loading)
        return sending

    async def _load(self, queue: SqsQueue, sending: _Queue) -> None:
        for taken in await self._history.read(queue):
            sending.window.replay(taken)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _key(queue: SqsQueue, message: FifoMessage) -> str:
    return window_key(queue, message.group_id, message.deduplication_id)


def _settle(
    sending: _Queue, message: FifoMessage, taken: Taken, outcome: Outcome | BaseException
) -> None:
    """Tell those who wait. What is not stored may be sent again; what is in doubt is looked for."""
    stored = sending.storing.pop(taken)
    if not isinstance(outcome, BaseException):
        stored.set_result(None)
        return
    if isinstance(outcome, _NOT_STORED):
        sending.window.withdraw(taken)
    else:
        sending.doubt(taken, message.group_id)
    stored.set_exception(outcome)
    # Perhaps nobody waits any more; that is fine.
    stored.exception()


def _has_failed(loading: "asyncio.Task[None]") -> bool:
    return loading.done() and (loading.cancelled() or loading.exception() is not None)
