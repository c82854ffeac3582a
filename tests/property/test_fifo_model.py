"""Sends to a FIFO queue at the same time, over failures of every kind, crashes and other writers.

The log is a list. Whatever happens: an id is in it once, whoever was answered was told the message
that is in it, and numbers grow along it. A broker that was replaced may go on for as long as it
likes, with clients that have not heard of the next one and a clock of its own; appends whose
answers are lost may still arrive.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.broker.calls.calls import Calls
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.sole_writer import SoleWriter
from goqueue.broker.partitions.turn import Turn
from goqueue.broker.queues import fifo as fifo_module
from goqueue.broker.queues.fifo import FifoSending
from goqueue.broker.queues.fifo_history import FifoHistory
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.model.calls import Method
from goqueue.model.errors import BrokerUnreachable, GoQueueError, PartitionOffline, RecordTooLarge
from goqueue.model.log import Published
from goqueue.model.names import PartitionIndex, TopicName, TopicPartition
from goqueue.model.publishing import Outcome, WriterTurn, before_term
from goqueue.model.queues.fifo import FifoMessage, SentOnce, number_text
from goqueue.model.queues.sqs_headers import system_facts
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import UNKNOWN_STATE, PartitionView, TopicView
from goqueue.state.queues.fifo_window import Taken

TOPIC = WritableTopic("q.fifo")
ONE_PARTITION = (PartitionView(PartitionIndex(0), UNKNOWN_STATE, 0),)
VIEW = TopicView(TopicName("q.fifo"), UUID(int=1), ONE_PARTITION, {})
QUEUE = SqsQueue(VIEW, TopicConfig(), None, None)

# What becomes of an append: it is stored or refused; it fails before or after it is stored, or
# arrives some time after its writer gave it up; the broker is killed before or after.
FATES = ("stored", "refused", "lost", "unanswered", "late", "killed before", "killed after")


class Send(NamedTuple):
    ids: list[str]
    # Turns of the event loop before it is sent, and before its append is answered.
    starts_after: int
    takes: int
    fate: str


class Life(NamedTuple):
    """Of a broker as the queue's writer: until all are answered, it is killed, or replaced."""

    sends: list[Send]
    replaced_after: int | None
    clock_ahead_ms: int


LIVES = st.lists(
    st.builds(
        Life,
        sends=st.lists(
            st.builds(
                Send,
                ids=st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
                starts_after=st.integers(0, 9),
                takes=st.integers(0, 3),
                fate=st.sampled_from(FATES),
            ),
            min_size=1,
            max_size=5,
        ),
        replaced_after=st.none() | st.integers(0, 12),
        clock_ahead_ms=st.sampled_from((0, 0, 5_000, -5_000)),
    ),
    min_size=1,
    max_size=4,
)


@dataclass
class World:
    """The leader of the queue's partition, and clients."""

    log: list[Taken] = field(default_factory=list)
    sole_writer: SoleWriter = field(default_factory=lambda: SoleWriter(Turn()))
    told: dict[str, set[SentOnce]] = field(default_factory=dict)
    late: list[asyncio.Task[None]] = field(default_factory=list)
    sent: int = 0
    now_ms: int = 1_000_000

    def append(self, records: Sequence[NewRecord], turn: WriterTurn) -> None:
        self.sole_writer.admit(turn)
        self.log += [_taken(record) for record in records]

    async def client(self, fifo: FifoSending, fates: list[Send], send: Send) -> None:
        await _turns(send.starts_after)
        fates.append(send)
        messages = [self._message(each) for each in send.ids]
        for message, answer in zip(messages, await fifo.send(TOPIC, messages), strict=True):
            if isinstance(answer, SentOnce):
                self.told.setdefault(message.deduplication_id, set()).add(answer)
            else:
                assert isinstance(answer, GoQueueError)

    def _message(self, deduplication_id: str) -> FifoMessage:
        self.sent += 1
        self.now_ms += 1
        message_id = str(self.sent)
        headers = (
            ("sqs-message-id", message_id.encode()),
            ("sqs-deduplication-id", deduplication_id.encode()),
        )
        return FifoMessage(message_id, "g", deduplication_id, b"", headers, 0)


@dataclass
class Writer:
    """The broker around the window, during one term."""

    world: World
    leader_epoch: int
    clock_ahead_ms: int
    fates: list[Send] = field(default_factory=list)
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    served: dict[str, Callable[[Any], Awaitable[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock_ms: Callable[[], int] = lambda: self.world.now_ms + self.clock_ahead_ms

    def partition(self, _topic: str, _index: int) -> Partition:
        return cast(Partition, self)

    def serve(self, method: Method[Any, Any], run: Callable[[Any], Awaitable[Any]]) -> None:
        self.served[method.name] = run

    async def ask(self, method: Method[Any, Any], _place: TopicPartition, request: object) -> Any:
        return await self.served[method.name](request)

    def find(self, _topic: WritableTopic) -> SqsQueue:
        return QUEUE

    def names(self) -> list[str]:
        return [TOPIC]

    def purged_up_to(self, _queue: SqsQueue) -> int:
        return 0

    async def publish(
        self,
        _topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
        partitions: Sequence[int | None] | None = None,
        turn: WriterTurn | None = None,
    ) -> list[Outcome]:
        assert turn is not None
        assert partitions == [0] * len(records)
        assert due is None
        # Several requests may be in one append, and one in several.
        send = self.fates.pop(0) if self.fates else Send([], 0, 0, "stored")
        await _turns(send.takes)
        if send.fate in ("stored", "unanswered", "killed after"):
            try:
                self.world.append(records, turn)
            except GoQueueError as error:
                return [error for _ in records]
        if send.fate == "late":
            arrives = asyncio.create_task(self._arrive(records, turn, send.starts_after))
            self.world.late.append(arrives)
        if send.fate.startswith("killed"):
            self.killed.set()
            await asyncio.Event().wait()
        await _turns(send.takes)
        if send.fate == "refused":
            return [RecordTooLarge("too large") for _ in records]
        if send.fate in ("lost", "unanswered", "late"):
            return [BrokerUnreachable("no answer") for _ in records]
        return [Published(0, 0, 0) for _ in records]

    def publish_at_once(
        self, _topic: WritableTopic, _index: int, records: Sequence[NewRecord], turn: WriterTurn
    ) -> list[Outcome] | None:
        send = self.fates[0] if self.fates else Send([], 0, 0, "stored")
        if send.takes or send.fate not in ("stored", "unanswered", "refused", "lost"):
            return None
        del self.fates[:1]
        if send.fate in ("stored", "unanswered"):
            self.world.append(records, turn)
        if send.fate == "refused":
            return [RecordTooLarge("too large") for _ in records]
        if send.fate in ("lost", "unanswered"):
            raise PartitionOffline("the disk failed")
        return [Published(0, 0, 0) for _ in records]

    async def _arrive(self, records: Sequence[NewRecord], turn: WriterTurn, after: int) -> None:
        await _turns(3 * after)
        with contextlib.suppress(GoQueueError):
            self.world.append(records, turn)

    async def read(self, _queue: SqsQueue, term: int) -> list[Taken]:
        await _turns(1)
        await self.world.sole_writer.end(before_term(term))
        found = sorted(self.world.log, key=lambda taken: taken.number)
        await _turns(1)
        return found

    async def has(self, _queue: SqsQueue, _index: int, taken: Taken, term: int) -> bool:
        # Long enough for others to end in doubt meanwhile.
        await _turns(2)
        await self.world.sole_writer.end(WriterTurn(term, taken.number))
        is_there = taken in self.world.log
        await _turns(2)
        return is_there


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _taken(record: NewRecord) -> Taken:
    facts = system_facts(record.headers)
    assert facts.deduplication_id is not None
    assert facts.message_id is not None
    return Taken(facts.deduplication_id, facts.message_id, int(facts.sequence_number or 0))


async def _live(world: World, life: Life, term: int) -> FifoSending:
    """Returns when the next writer may begin; this one may go on."""
    writer = Writer(world, term, life.clock_ahead_ms)
    fifo = FifoSending(
        writer,
        cast(SqsCatalogue, writer),
        writer,
        cast(FifoHistory, writer),
        cast(Calls, writer),
    )
    clients = [asyncio.create_task(world.client(fifo, writer.fates, send)) for send in life.sends]
    death = asyncio.create_task(writer.killed.wait())
    everyone = asyncio.gather(*clients)
    ends: list[asyncio.Future[Any]] = [everyone, death]
    if life.replaced_after is not None:
        ends.append(asyncio.create_task(_turns(life.replaced_after)))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    async def end() -> None:
        await asyncio.wait(ends[:2], return_when=asyncio.FIRST_COMPLETED)
        if death.done():
            for client in clients:
                client.cancel()
        await asyncio.gather(everyone, return_exceptions=True)
        if not death.done():
            everyone.result()
        death.cancel()
        await fifo.close()

    ending = asyncio.create_task(end())
    if life.replaced_after is None:
        await ending
    else:
        world.late.append(ending)
    return fifo


async def _run(lives: list[Life]) -> None:
    world = World()
    for term, life in enumerate(lives):
        await _live(world, life, term)
    await asyncio.gather(*world.late)
    stored = {taken.key: taken for taken in world.log}
    assert max(Counter(taken.key for taken in world.log).values(), default=1) == 1
    for earlier, later in itertools.pairwise(world.log):
        assert earlier.number < later.number
    for key, answers in world.told.items():
        taken = stored[key]
        assert answers == {SentOnce(taken.message_id, number_text(taken.number))}


def _one_life(*sends: Send) -> Life:
    return Life(list(sends), None, 0)


# While one that is in doubt is looked for, another one that is sent along ends in doubt.
DOUBT_WHILE_LOOKING: Final = [
    _one_life(
        Send(["a"], starts_after=0, takes=1, fate="lost"),
        Send(["a"], starts_after=2, takes=0, fate="stored"),
        Send(["c"], starts_after=0, takes=1, fate="lost"),
        Send(["a", "c"], starts_after=5, takes=0, fate="stored"),
    )
]
# What was given up arrives when its id was given to another message.
ARRIVES_LATE: Final = [
    _one_life(
        Send(["a"], starts_after=9, takes=0, fate="late"),
        Send(["a"], starts_after=12, takes=0, fate="stored"),
    )
]
# A writer that was replaced stores what it took before.
REPLACED: Final = [
    Life([Send(["a"], starts_after=9, takes=3, fate="stored")], 3, 5_000),
    Life([Send(["b"], starts_after=0, takes=0, fate="stored")], None, -5_000),
]


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fifo_module, "RETRY_S", 0)
        patch.setattr(fifo_module, "PATIENCE_S", 0.002)
        yield


@settings(max_examples=1_000, deadline=None)
@given(LIVES)
@example(DOUBT_WHILE_LOOKING)
@example(ARRIVES_LATE)
@example(REPLACED)
def test_every_id_once(lives: list[Life]) -> None:
    asyncio.run(asyncio.wait_for(_run(lives), 5))
