"""Messages of one FIFO queue on their way into its partitions, in the order of their numbers.

One batch at a time is on its way to a partition; what comes meanwhile is gathered to the next one.
So no batch overtakes another, also where it has to look for a new leader of its partition. Each
carries the turn of its writer, so that a writer that was replaced stores nothing any more, and one
that asks whether a batch came true gets an answer that stays true: see `fifo.py`.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from goqueue.model.errors import (
    AccessDenied,
    GoQueueError,
    InvalidRequest,
    NotEnoughReplicas,
    PolicyViolation,
    ShuttingDown,
    UnknownTopic,
)
from goqueue.model.publishing import Outcome, WriterTurn
from goqueue.model.queues.fifo import FifoMessage, time_of
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.state.queues.fifo_window import FifoWindow, Taken

# What one message of a batch may do to all others.
_UNFIT: Final = (InvalidRequest, PolicyViolation, UnknownTopic, AccessDenied)
# What is refused with one of these was not appended; after any other error nobody knows.
_NOT_STORED: Final = (*_UNFIT, NotEnoughReplicas)
# Of several requests in one batch. The bytes are far below what a queue takes in one message.
BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 128 * 1024


class Publishing(Protocol):
    """The one way of single records into topics."""

    async def publish(
        self,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
        partitions: Sequence[int | None] | None = None,
        turn: WriterTurn | None = None,
    ) -> list[Outcome]: ...

    def publish_at_once(
        self, topic: WritableTopic, index: int, records: Sequence[NewRecord], turn: WriterTurn
    ) -> Sequence[Outcome] | None: ...


class Numbered(NamedTuple):
    message: FifoMessage
    taken: Taken


# What one request brings to one partition.
Parcel = Sequence[Numbered]
# Done once the message is stored, or is not.
Storing = Mapping[Taken, "asyncio.Future[None]"]


class _Lane:
    """The way to one partition."""

    def __init__(self) -> None:
        self.waiting: deque[Parcel] = deque()
        self.running: asyncio.Task[None] | None = None

    def next_batch(self) -> list[Parcel]:
        """As many as make a good batch; one at least."""
        batch = [self.waiting.popleft()]
        messages, size_bytes = len(batch[0]), _size_bytes(batch[0])
        while self.waiting:
            messages += len(self.waiting[0])
            size_bytes += _size_bytes(self.waiting[0])
            if messages > BATCH_MESSAGES or size_bytes > BATCH_BYTES:
                break
            batch.append(self.waiting.popleft())
        return batch


class FifoQueue:
    """The window of one queue during one term of its writer, and what is under way."""

    def __init__(
        self, publishing: Publishing, topic: WritableTopic, topic_id: UUID, term: int
    ) -> None:
        self._publishing = publishing
        self._topic = topic
        self.topic_id = topic_id
        self.term = term
        self.window = FifoWindow()
        self.loading: asyncio.Task[None] | None = None
        # A repetition that comes before its message is stored waits for it.
        self.storing: dict[Taken, asyncio.Future[None]] = {}
        # Messages whose append failed in a way that leaves open whether they are stored, with the
        # partition of each.
        self.in_doubt: dict[Taken, int] = {}
        self.looking = asyncio.Lock()
        self._lanes: dict[int, _Lane] = {}
        # Parcels that came in this turn of the event loop; whether one came alone in the last.
        self._came = 0
        self._came_alone = True
        self._over: GoQueueError | None = None

    def store(self, index: int, parcel: Parcel) -> Storing:
        """What is to be waited for: nothing if all of it is stored now."""
        outcomes = self._at_once(index, parcel)
        if outcomes is not None and not any(isinstance(each, Exception) for each in outcomes):
            return {}
        loop = asyncio.get_running_loop()
        storing = {taken: loop.create_future() for _, taken in parcel}
        self.storing.update(storing)
        if outcomes is not None:
            self._settle(index, [parcel], outcomes)
            return storing
        lane = self._lanes.setdefault(index, _Lane())
        lane.waiting.append(parcel)
        if lane.running is None:
            # A task of its own: a client that goes away must not leave open what is stored.
            lane.running = asyncio.create_task(self._run(index, lane))
        return storing

    def _at_once(self, index: int, parcel: Parcel) -> Sequence[Outcome | BaseException] | None:
        """On a node of one most appends have nothing to wait for. None: this one may have.

        Where several come in one turn of the event loop, it is better to wait for the others: a
        batch of all costs far less than one for each.
        """
        if self._over is not None:
            return [self._over] * len(parcel)
        if not self._came:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._came += 1
        if self._came > 1 or not self._came_alone or self._lanes:
            return None
        if any(message.delay_ms for message, _ in parcel):
            return None
        try:
            return self._publishing.publish_at_once(
                self._topic,
                index,
                [message.record(taken.number) for message, taken in parcel],
                WriterTurn(self.term, parcel[0].taken.number),
            )
        except Exception as error:
            return [error] * len(parcel)

    def _end_turn(self) -> None:
        self._came_alone = self._came == 1
        self._came = 0

    def end(self, error: GoQueueError) -> "list[asyncio.Task[None]]":
        """Nothing is stored any more; those who wait get `error`. Returns what is yet to end."""
        self._over = error
        for index, lane in self._lanes.items():
            while lane.waiting:
                left = lane.waiting.popleft()
                self._settle(index, [left], [error] * len(left))
        running = [lane.running for lane in self._lanes.values() if lane.running is not None]
        for task in running:
            task.cancel()
        return running

    def first_in_doubt(self, keys: Set[str]) -> tuple[Taken, int] | None:
        return next((each for each in self.in_doubt.items() if each[0].key in keys), None)

    def _doubt(self, taken: Taken, index: int) -> None:
        """Until it is sent again, or for as long as its id is taken."""
        while self.in_doubt:
            oldest = next(iter(self.in_doubt))
            if time_of(taken.number) < oldest.free_ms:
                break
            del self.in_doubt[oldest]
        self.in_doubt[taken] = index

    # --- lanes ----------------------------------------------------------------------------

    async def _run(self, index: int, lane: _Lane) -> None:
        while lane.waiting:
            batch = lane.next_batch()
            outcomes = await self._publish(index, batch)
            if len(batch) > 1 and any(isinstance(each, _UNFIT) for each in outcomes):
                outcomes = await self._publish_each(index, batch, outcomes)
            self._settle(index, batch, outcomes)
        del self._lanes[index]

    async def _publish(
        self, index: int, batch: Sequence[Parcel]
    ) -> Sequence[Outcome | BaseException]:
        numbered = [each for parcel in batch for each in parcel]
        if self._over is not None:
            return [self._over] * len(numbered)
        due: list[int | None] | None = None
        if any(message.delay_ms for message, _ in numbered):
            due = [
                time_of(taken.number) + message.delay_ms if message.delay_ms else None
                for message, taken in numbered
            ]
        try:
            return await self._publishing.publish(
                self._topic,
                [message.record(taken.number) for message, taken in numbered],
                due=due,
                partitions=[index] * len(numbered),
                turn=WriterTurn(self.term, numbered[0].taken.number),
            )
        except asyncio.CancelledError:
            over = self._over or ShuttingDown("the broker is shutting down")
            return [over] * len(numbered)
        except Exception as error:
            return [error] * len(numbered)

    async def _publish_each(
        self, index: int, batch: Sequence[Parcel], found: Sequence[Outcome | BaseException]
    ) -> list[Outcome | BaseException]:
        """What one request brought may have refused what others did: each by itself."""
        outcomes: list[Outcome | BaseException] = []
        for parcel in batch:
            own = found[len(outcomes) : len(outcomes) + len(parcel)]
            if all(isinstance(each, _UNFIT) for each in own):
                own = await self._publish(index, [parcel])
            outcomes += own
        return outcomes

    def _settle(
        self, index: int, batch: Sequence[Parcel], outcomes: Sequence[Outcome | BaseException]
    ) -> None:
        """Tell those who wait. What is not stored may be sent again; what is in doubt is looked
        for."""
        numbered = (each for parcel in batch for each in parcel)
        for (_, taken), outcome in zip(numbered, outcomes, strict=True):
            stored = self.storing.pop(taken)
            if not isinstance(outcome, BaseException):
                stored.set_result(None)
                continue
            if isinstance(outcome, _NOT_STORED):
                self.window.withdraw(taken)
            else:
                self._doubt(taken, index)
            stored.set_exception(outcome)
            # Perhaps nobody waits any more; that is fine.
            stored.exception()


def _size_bytes(parcel: Parcel) -> int:
    return sum(
        len(message.value) + sum(len(name) + len(value or b"") for name, value in message.headers)
        for message, _ in parcel
    )
