"""Sending to FIFO queues: each deduplication id once in five minutes, numbers that only grow.

Runs one window per queue, found again in the log when the first message after a start is sent. Runs
where the queue's first partition is led, so that there is one writer for all partitions, wherever
these are led. Its term is the epoch of that leader.

Only one writer's messages count, although a broker may go on for a while after it was replaced:

- A new writer reads what was stored before it takes a message. Before that is read, the leader of
  each partition ends the turns of earlier terms. So what a replaced writer sends is either in the
  log by then, and the new writer knows it, or refused for good.
- The leader of a partition may be replaced after that, and the next one has not heard of the turns
  that are over. But it was elected after the new writer, and so knows the new term from the
  metadata. And calls for the leader before it name another epoch, and are refused.
- A writer that hears that it was replaced stops what it has under way.

The same holds for one message: when the answer to an append is lost, the writer ends the turn of
that append where it was to be stored, and looks for the message there. It is found, or it was not
stored and never will be, and the id is free. So numbers and order of a group agree, and a message
that is sent again is stored once, over all changes of leaders.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.broker.calls.failures import error_of, failure_of
from goqueue.broker.own_grants import OwnWork, own_write
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.fifo_history import FifoHistory, window_key
from goqueue.broker.queues.fifo_storing import FifoQueue, Numbered, Publishing, Storing
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.model.calls import Failure, Method
from goqueue.model.errors import BrokerUnreachable, GoQueueError, NotLeader, ShuttingDown
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.partitioner import partition_for_key
from goqueue.model.queues.fifo import FifoMessage, SentOnce, number_text
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.rights import DeletableTopic, WritableTopic
from goqueue.pace import in_slices
from goqueue.state.queues.fifo_window import Taken

# The partition whose leader has the window.
_OWNER: Final = 0
# How long a message that was sent to a leader which is gone is looked for, and sent again.
PATIENCE_S: Final = 10.0
# A leader that goes away again and again is not asked all the time.
RETRY_S: Final = 0.1
# Who answers so is gone, or leads no longer: the next leader knows what became of the message.
_GONE: Final = (BrokerUnreachable, NotLeader)


class SendMessages(msgspec.Struct, frozen=True):
    topic: WritableTopic
    messages: list[FifoMessage]


class SentMessage(msgspec.Struct, frozen=True):
    sent: SentOnce | None = None
    failure: Failure | None = None


class PurgeMessages(msgspec.Struct, frozen=True):
    topic: DeletableTopic


# It may be asked again: a message that is sent twice is known by its ids.
SEND: Final = Method("fifo.send", SendMessages, list[SentMessage], is_repeatable=True)
PURGE: Final = Method("fifo.purge", PurgeMessages, type(None))


class FifoHost(Protocol):
    """The part of the broker that FIFO queues stand on."""

    clock_ms: Callable[[], int]

    def partition(self, topic: str, index: int) -> Partition: ...


class FifoSending:
    def __init__(
        self,
        host: FifoHost,
        catalogue: SqsCatalogue,
        publishing: Publishing,
        history: FifoHistory,
        calls: Calls,
    ) -> None:
        self._host = host
        self._catalogue = catalogue
        self._publishing = publishing
        self._history = history
        self._calls = calls
        self._queues: dict[str, FifoQueue] = {}
        self._ending: set[asyncio.Task[None]] = set()
        calls.serve(SEND, self._send_here)
        calls.serve(PURGE, self._purge_here)

    async def send(
        self, topic: WritableTopic, messages: Sequence[FifoMessage]
    ) -> list[SentOnce | GoQueueError]:
        """Store messages whose ids are free; say of each what its id stands for now."""
        request = SendMessages(topic, list(messages))
        answers = await self._calls.ask(SEND, topic_partition(topic, _OWNER), request)
        return [_answer(answer) for answer in answers]

    async def _send_here(self, request: SendMessages) -> list[SentMessage]:
        sent = await self._send(request.topic, request.messages)
        if any(isinstance(outcome, _GONE) for outcome in sent):
            await self._send_again(request, sent)
        return [
            SentMessage(failure=failure_of(outcome))
            if isinstance(outcome, GoQueueError)
            else SentMessage(outcome)
            for outcome in sent
        ]

    async def _send_again(
        self, request: SendMessages, outcomes: list[SentOnce | GoQueueError]
    ) -> None:
        """As often as needed, while partitions change their leaders."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_S
        while left := [at for at, each in enumerate(outcomes) if isinstance(each, _GONE)]:
            if loop.time() >= give_up_at:
                return
            await asyncio.sleep(RETRY_S)
            sent = await self._send(request.topic, [request.messages[at] for at in left])
            for at, outcome in zip(left, sent, strict=True):
                outcomes[at] = outcome

    async def _send(
        self, topic: WritableTopic, messages: Sequence[FifoMessage]
    ) -> list[SentOnce | GoQueueError]:
        queue = self._catalogue.find(topic)
        sending = await self._loaded(topic, queue)
        doubts = await self._settle_doubts(queue, sending, messages)
        answers: list[Taken | GoQueueError] = []
        # What is under way; once stored it is no longer there to be waited for.
        storing: dict[Taken, asyncio.Future[None]] = {}
        fresh: dict[int, list[Numbered]] = {}
        now_ms = self._host.clock_ms()
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
            if taken.number > sending.window.last_number:
                sending.window.replay(taken)
                index = partition_for_key(message.group_id.encode(), len(queue.topic.partitions))
                fresh.setdefault(index, []).append(Numbered(message, taken))
            elif taken in sending.storing:
                storing[taken] = sending.storing[taken]
        for index, parcel in fresh.items():
            storing.update(sending.store(index, parcel))
        if storing:
            await asyncio.wait(storing.values())
        return [_outcome(taken, storing) for taken in answers]

    async def purge(self, topic: DeletableTopic) -> None:
        """Empty a queue of either kind; ids that were sent before may be sent again."""
        await self._calls.ask(PURGE, topic_partition(topic, _OWNER), PurgeMessages(topic))

    async def _purge_here(self, request: PurgeMessages) -> None:
        queue = self._catalogue.find(request.topic)
        if not queue.is_fifo:
            await self._catalogue.purge(request.topic)
            return
        # What is purged must be known to the window, with its numbers.
        sending = await self._loaded(own_write(queue.name, OwnWork.FIFO_WINDOW), queue)
        last_number = sending.window.last_number
        await self._catalogue.purge(request.topic, last_number)
        sending.window.forget(last_number)
        # Those that were numbered since are still in doubt.
        for taken in [each for each in sending.in_doubt if each.number <= last_number]:
            del sending.in_doubt[taken]

    async def close(self) -> None:
        """Called with the doors closed: nobody waits for what is still under way."""
        for queue in self._queues.values():
            self._ending.update(queue.end(ShuttingDown("the broker is shutting down")))
        await asyncio.gather(*self._ending, return_exceptions=True)

    # --- leadership -----------------------------------------------------------------------

    def partition_led(self, place: TopicPartition) -> None:
        """The first message that is sent has the window read."""

    def partition_lost(self, place: TopicPartition) -> None:
        """The next leader has another window; what is under way here ends with an error."""
        queue = self._queues.pop(place.topic, None) if place.partition == _OWNER else None
        if queue is not None:
            self._end(queue)

    def _end(self, queue: FifoQueue) -> None:
        for task in queue.end(NotLeader("another broker takes the messages of this queue now")):
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    # --- windows --------------------------------------------------------------------------

    async def _settle_doubts(
        self, queue: SqsQueue, sending: FifoQueue, messages: Sequence[FifoMessage]
    ) -> dict[str, GoQueueError]:
        """Look for what is in doubt and is sent again. Why that failed, by the keys concerned."""
        if not sending.in_doubt:
            return {}
        failures: dict[str, GoQueueError] = {}
        keys = {_key(queue, message) for message in messages}
        async with sending.looking:
            # Others may end in doubt while one is looked for: until there is none left.
            while doubtful := sending.first_in_doubt(keys - failures.keys()):
                taken, index = doubtful
                try:
                    is_stored = await self._history.has(queue, index, taken, sending.term)
                except GoQueueError as error:
                    failures[taken.key] = error
                    continue
                if not is_stored:
                    sending.window.withdraw(taken)
                sending.in_doubt.pop(taken, None)
        return failures

    async def _loaded(self, topic: WritableTopic, queue: SqsQueue) -> FifoQueue:
        """The queue's window, found again in the log; the first send after a start waits."""
        term = self._host.partition(queue.name, _OWNER).leader_epoch
        sending = self._queues.get(queue.name)
        if sending is None or (sending.topic_id, sending.term) != (queue.topic.id, term):
            self._forget_deleted()
            if sending is not None:
                self._end(sending)
            sending = FifoQueue(self._publishing, topic, queue.topic.id, term)
            self._queues[queue.name] = sending
        if sending.loading is None or _has_failed(sending.loading):
            sending.loading = asyncio.create_task(self._load(queue, sending))
        if not sending.loading.done():
            # Shielded: a client that goes away must not stop the loading for all others.
            await asyncio.shield(sending.loading)
        return sending

    async def _load(self, queue: SqsQueue, sending: FifoQueue) -> None:
        found = await self._history.read(queue, sending.term)
        sending.window.skip_to(self._catalogue.purged_up_to(queue))
        async for taken in in_slices(found):
            sending.window.replay(taken)

    def _forget_deleted(self) -> None:
        there = set(self._catalogue.names())
        for name in self._queues.keys() - there:
            self._end(self._queues.pop(name))


def _key(queue: SqsQueue, message: FifoMessage) -> str:
    return window_key(queue, message.group_id, message.deduplication_id)


def _outcome(taken: Taken | GoQueueError, storing: Storing) -> SentOnce | GoQueueError:
    if isinstance(taken, GoQueueError):
        return taken
    future = storing.get(taken)
    error = None if future is None else future.exception()
    if isinstance(error, GoQueueError):
        return error
    if error is not None:
        raise error
    return SentOnce(taken.message_id, number_text(taken.number))


def _answer(answer: SentMessage) -> SentOnce | GoQueueError:
    if answer.failure is not None:
        return error_of(answer.failure)
    assert answer.sent is not None
    return answer.sent


def _has_failed(loading: "asyncio.Task[None]") -> bool:
    return loading.done() and (loading.cancelled() or loading.exception() is not None)
