"""Sends to a FIFO queue at the same time, over failures of every kind and crashes of the broker.

The log is a list. Whatever happens: an id is in it once, whoever was answered was told the message
that is in it, and numbers grow along it.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.broker.queues.fifo import FifoSending
from goqueue.broker.queues.fifo_history import FifoHistory
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.model.errors import GoQueueError, RecordTooLarge, RequestTimedOut
from goqueue.model.log import Published
from goqueue.model.names import TopicName
from goqueue.model.publishing import Outcome
from goqueue.model.queues.fifo import FifoMessage, SentOnce, number_text
from goqueue.model.queues.sqs_headers import system_facts
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import TopicView
from goqueue.state.queues.fifo_window import Taken

TOPIC = WritableTopic("q.fifo")
VIEW = TopicView(TopicName("q.fifo"), UUID(int=1), (), {})
QUEUE = SqsQueue(VIEW, TopicConfig(), None, None)

# What becomes of an append: it is stored or refused; it fails before or after it is stored; the
# broker is killed before or after.
FATES = ("stored", "refused", "lost", "unanswered", "killed before", "killed after")


class Send(NamedTuple):
    ids: list[str]
    # Turns of the event loop before it is sent, and before its append is answered.
    starts_after: int
    takes: int
    fate: str


ROUNDS = st.lists(
    st.lists(
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
    min_size=1,
    max_size=4,
)


@dataclass
class World:
    log: list[Taken] = field(default_factory=list)
    fates: list[Send] = field(default_factory=list)
    told: dict[str, set[SentOnce]] = field(default_factory=dict)
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    now_ms: int = 1_000_000

    # --- the broker around the window -----------------------------------------------------

    def find(self, _topic: WritableTopic) -> SqsQueue:
        return QUEUE

    def names(self) -> list[str]:
        return [TOPIC]

    async def publish(
        self,
        _topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
    ) -> list[Outcome]:
        send = self.fates.pop(0)
        await _turns(send.takes)
        if send.fate in ("stored", "unanswered", "killed after"):
            self.log += [_taken(record) for record in records]
        if send.fate.startswith("killed"):
            self.killed.set()
            await asyncio.Event().wait()
        await _turns(send.takes)
        if send.fate == "refused":
            return [RecordTooLarge("too large") for _ in records]
        if send.fate in ("lost", "unanswered"):
            return [RequestTimedOut("no answer") for _ in records]
        return [Published(0, 0, 0) for _ in records]

    async def read(self, _queue: SqsQueue) -> list[Taken]:
        await _turns(1)
        return sorted(self.log, key=lambda taken: taken.number)

    async def has(self, _queue: SqsQueue, _group_id: str, taken: Taken) -> bool:
        # Long enough for others to end in doubt meanwhile.
        await _turns(4)
        return taken in self.log

    # --- clients --------------------------------------------------------------------------

    async def client(self, fifo: FifoSending, send: Send) -> None:
        await _turns(send.starts_after)
        self.fates.append(send)
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


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _taken(record: NewRecord) -> Taken:
    facts = system_facts(record.headers)
    assert facts.deduplication_id is not None
    assert facts.message_id is not None
    return Taken(facts.deduplication_id, facts.message_id, int(facts.sequence_number or 0))


async def _round(world: World, sends: list[Send]) -> None:
    """One life of the broker: until all are answered, or until it is killed."""
    world.fates.clear()
    world.killed = asyncio.Event()
    fifo = FifoSending(
        cast(SqsCatalogue, world), world, cast(FifoHistory, world), clock_ms=lambda: world.now_ms
    )
    clients = [asyncio.create_task(world.client(fifo, send)) for send in sends]
    death = asyncio.create_task(world.killed.wait())
    everyone = asyncio.gather(*clients)
    ends: list[asyncio.Future[Any]] = [everyone, death]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if death.done():
        for client in clients:
            client.cancel()
    await asyncio.gather(everyone, return_exceptions=True)
    if not death.done():
        everyone.result()
    death.cancel()
    await fifo.close()


async def _run(rounds: list[list[Send]]) -> None:
    world = World()
    for sends in rounds:
        await _round(world, sends)
    stored = {taken.key: taken for taken in world.log}
    assert max(Counter(taken.key for taken in world.log).values(), default=1) == 1
    for key, answers in world.told.items():
        taken = stored[key]
        assert answers == {SentOnce(taken.message_id, number_text(taken.number))}


# While one that is in doubt is looked for, another one that is sent along ends in doubt.
DOUBT_WHILE_LOOKING: Final = [
    [
        Send(["a"], starts_after=0, takes=1, fate="lost"),
        Send(["a"], starts_after=2, takes=0, fate="stored"),
        Send(["c"], starts_after=0, takes=1, fate="lost"),
        Send(["a", "c"], starts_after=5, takes=0, fate="stored"),
    ]
]


@settings(max_examples=500, deadline=None)
@given(ROUNDS)
@example(DOUBT_WHILE_LOOKING)
def test_every_id_once(rounds: list[list[Send]]) -> None:
    asyncio.run(_run(rounds))
