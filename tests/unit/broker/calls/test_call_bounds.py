"""What a broker keeps of calls that another one does not take, and brokers that need each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import pytest

from goqueue.broker.calls.link import UNSENT_MAX_BYTES, CallLink
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError, Overloaded
from goqueue.model.names import NodeId, topic_partition
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

MEGABYTE: Final = 1024 * 1024
PLACE: Final = topic_partition(TOPIC, 0)


class Question(msgspec.Struct, frozen=True):
    padding: bytes = b""


OUTER: Final = Method("test.outer", Question, bytes)
INNER: Final = Method("test.inner", Question, bytes)


@asynccontextmanager
async def deaf_broker() -> AsyncIterator[tuple[str, int]]:
    """Takes connections, and reads nothing."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        over.set()
        server.close()


def test_calls_that_nobody_takes_are_not_kept_without_end() -> None:
    async def check() -> None:
        async with deaf_broker() as (host, port):
            link = await CallLink.open(host, port)
            calls = [
                asyncio.create_task(link.call(bytes(MEGABYTE), timeout_s=60.0, waits=False))
                for _ in range(100)
            ]
            done, sent = await asyncio.wait(calls, timeout=0.5)
            assert len(done) >= 100 - UNSENT_MAX_BYTES // MEGABYTE - 20
            assert {type(each.exception()) for each in done} == {Overloaded}
            assert link._frames.unsent_bytes <= UNSENT_MAX_BYTES + MEGABYTE + 100
            link.close("it is over")
            failures = await asyncio.gather(*sent, return_exceptions=True)
            assert len(failures) >= UNSENT_MAX_BYTES // MEGABYTE
            assert not [each for each in failures if isinstance(each, Overloaded)]

    asyncio.run(check())


@with_nodes
async def test_a_call_that_was_not_sent_is_asked_again(
    nodes: Nodes,
) -> None:
    one, two = await nodes.start(1, 2)
    asked: list[bytes] = []

    async def answer(question: Question) -> bytes:
        asked.append(question.padding)
        return b"done"

    one.node.calls.serve(OUTER, answer)
    await nodes.make_topic()
    await nodes.until(lambda: two.view().leader == 1)
    link = await two.node.calls._links.to(NodeId(1), timeout_s=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.calls.link.UNSENT_MAX_BYTES", 0)
        with pytest.raises(Overloaded):
            await two.node.calls.ask_broker(OUTER, NodeId(1), Question(b"first"))
        asking = asyncio.create_task(two.node.calls.ask(OUTER, PLACE, Question(b"second")))
        await asyncio.sleep(0.05)
        assert not asking.done()
    assert await asking == b"done"
    assert asked == [b"second"]
    assert link.is_open


class Room:
    """What it is asked for needs the other broker."""

    def __init__(self, here: RunningNode, other: RunningNode) -> None:
        self.here = here
        self.other = NodeId(other.id)
        self.both_are_full = asyncio.Event()
        self.asked = 0
        here.node.calls.serve(OUTER, self.outer)
        here.node.calls.serve(INNER, self.inner)

    async def outer(self, question: Question) -> bytes:
        self.asked += 1
        await self.both_are_full.wait()
        return await self.here.node.calls.ask_broker(INNER, self.other, question)

    async def inner(self, question: Question) -> bytes:
        return question.padding[:1]


@with_nodes
async def test_brokers_that_need_each_other_do_not_stop_each_other(nodes: Nodes) -> None:
    one, two = await nodes.start(1, 2, queued__max__request__bytes=str(MEGABYTE))
    rooms = [Room(one, two), Room(two, one)]
    question = Question(b"x" * 30_000)
    asking = [
        asyncio.create_task(room.here.node.calls.ask_broker(OUTER, room.other, question))
        for room in rooms
        for _ in range(50)
    ]
    # As many as either takes; the others have been refused.
    refused = 0
    async with asyncio.timeout(30):
        while refused + sum(room.asked for room in rooms) < len(asking):
            refused = sum(each.done() for each in asking)
            await asyncio.sleep(0.005)
    assert all(0 < room.asked < 20 for room in rooms)
    for room in rooms:
        room.both_are_full.set()
    # None hangs until its time is over.
    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(each) for each in outcomes if isinstance(each, GoQueueError)} == {Overloaded}
    for room in rooms:
        answer = await room.here.node.calls.ask_broker(OUTER, room.other, question)
        assert answer == b"x"
