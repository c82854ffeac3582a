"""What calls of other brokers hold, what they leave to clients, and how they end."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec
import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.calls import CALL, CALL_API_KEY, FORGET, Answer, Call, Method
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

BUDGET_BYTES: Final = 1024 * 1024
WAIT_SECONDS: Final = 30


@pytest.fixture
def settings() -> dict[str, str]:
    return {"queued.max.request.bytes": str(BUDGET_BYTES), "connections.max.stalled.ms": "1000"}


class Question(msgspec.Struct, frozen=True):
    padding: bytes = b""
    answer_bytes: int = 0


WAIT: Final = Method("test.wait", Question, bytes, waits=True)
WRITE: Final = Method("test.write", Question, bytes)


class Room:
    """Carries calls out when it is let go."""

    def __init__(self, node: Node) -> None:
        self.may_go = asyncio.Event()
        self.asked = 0
        self.written = 0
        self.forgotten = 0
        node.calls.serve(WAIT, self.run)
        node.calls.serve(WRITE, self.write)

    async def write(self, question: Question) -> bytes:
        self.written += 1
        return await self.run(question)

    async def run(self, question: Question) -> bytes:
        self.asked += 1
        try:
            await self.may_go.wait()
        except asyncio.CancelledError:
            self.forgotten += 1
            raise
        return bytes(question.answer_bytes)


class BrokerLink:
    """Another broker's connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.next_number = 0

    @classmethod
    async def open(cls, door: KafkaDoor) -> "BrokerLink":
        return cls(*await asyncio.open_connection(*door.address, limit=16 * 1024))

    def call(self, method: Method[Question, bytes], question: Question) -> int:
        self.next_number += 1
        request = msgspec.Raw(msgspec.msgpack.encode(question))
        body = msgspec.msgpack.encode(Call(method.name, "", 0, -1, None, request))
        header = struct.pack(">hhih", CALL_API_KEY, CALL, self.next_number, -1)
        self.writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
        return self.next_number

    def forget(self, number: int) -> None:
        self.writer.write(struct.pack(">ihhih", 10, CALL_API_KEY, FORGET, number, -1))

    async def answer(self) -> tuple[int, Answer]:
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(length)
        (number,) = struct.unpack_from(">i", frame)
        return number, msgspec.msgpack.decode(frame[4:], type=Answer)

    async def is_served(self, room: Room) -> None:
        """All that was sent is read, and begun or refused."""
        written = room.written
        self.call(WRITE, Question())
        await until(lambda: room.written > written)


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so():
            await asyncio.sleep(0.005)


@pytest.fixture
def room(broker: Node) -> Room:
    return Room(broker)


@pytest.fixture
async def link(door: KafkaDoor) -> AsyncIterator[BrokerLink]:
    opened = await BrokerLink.open(door)
    yield opened
    opened.writer.close()


@pytest.mark.parametrize("method", [WAIT, WRITE])
async def test_calls_that_hang_do_not_hold_up_clients(
    method: Method[Question, bytes], link: BrokerLink, room: Room, client: WireClient
) -> None:
    for _ in range(100):
        link.call(method, Question(bytes(30_000)))
    await until(lambda: room.asked)
    async with asyncio.timeout(WAIT_SECONDS / 6):
        for _ in range(10):
            await client.call("metadata", 12, topics=[])


async def test_a_call_beyond_the_bound_is_told_that_nothing_was_done(
    link: BrokerLink, room: Room
) -> None:
    numbers = [link.call(WRITE, Question(bytes(30_000))) for _ in range(100)]
    refused = set()
    for _ in range(100 - BUDGET_BYTES // 4 // 30_000):
        number, answer = await link.answer()
        assert answer.failure is not None
        assert answer.failure.kind == "Overloaded"
        assert answer.failure.is_untouched
        assert "queued.max.request.bytes" in answer.failure.message
        refused.add(number)
    room.may_go.set()
    # Those that were taken are carried out, and then there is room again.
    for _ in range(len(numbers) - len(refused)):
        number, answer = await link.answer()
        assert answer.failure is None
        assert number not in refused
    link.call(WRITE, Question(bytes(30_000)))
    assert (await link.answer())[1].failure is None
    assert room.asked == len(numbers) - len(refused) + 1


async def test_calls_that_wait_leave_room_for_those_that_do_something(
    link: BrokerLink, room: Room, door: KafkaDoor
) -> None:
    for _ in range(100):
        link.call(WAIT, Question(bytes(10_000)))
    await until(lambda: room.asked)
    await link.is_served(room)
    waiting = room.asked - 1
    assert waiting < 50
    link.call(WRITE, Question(bytes(10_000)))
    await until(lambda: room.asked == waiting + 2)
    # So they do for other brokers, whose calls are refused only where all brokers' take too much.
    other = await BrokerLink.open(door)
    other.call(WAIT, Question(bytes(10_000)))
    await until(lambda: room.asked == waiting + 3)
    other.writer.close()
    await until(lambda: room.forgotten == 1)


async def test_a_call_that_is_forgotten_makes_room(link: BrokerLink, room: Room) -> None:
    for _ in range(100):
        link.call(WAIT, Question(bytes(10_000)))
    await until(lambda: room.asked)
    await link.is_served(room)
    before = room.asked
    # Nothing keeps the broker from reading that.
    for number in range(1, 101):
        link.forget(number)
    await until(lambda: room.forgotten == before - 1)
    link.call(WAIT, Question(bytes(10_000)))
    await until(lambda: room.asked == before + 1)


async def test_a_broker_that_takes_no_answers_is_cut_off(
    link: BrokerLink, room: Room, door: KafkaDoor, client: WireClient
) -> None:
    for _ in range(200):
        link.call(WRITE, Question(answer_bytes=100_000))
    await until(lambda: room.asked == 200)
    room.may_go.set()
    await until(lambda: len(door.connections) == 1)
    await client.call("metadata", 12, topics=[])


async def test_many_answers_at_once_that_nobody_takes_are_not_kept(
    link: BrokerLink, room: Room, door: KafkaDoor
) -> None:
    for _ in range(200):
        link.call(WRITE, Question(answer_bytes=1_000_000))
    await until(lambda: room.asked == 200)
    [serving] = door.connections
    room.may_go.set()
    most_bytes = 0
    async with asyncio.timeout(WAIT_SECONDS):
        while len(door.connections):
            most_bytes = max(most_bytes, serving.unsent_bytes)
            await asyncio.sleep(0)
    assert most_bytes < 8 * BUDGET_BYTES


async def test_clients_that_hold_everything_do_not_hold_up_calls(
    link: BrokerLink, room: Room, door: KafkaDoor
) -> None:
    room.may_go.set()
    link.call(WRITE, Question())
    await link.answer()
    # Held by requests that are under way.
    door._memory.take(2 * BUDGET_BYTES)
    async with asyncio.timeout(WAIT_SECONDS):
        for _ in range(10):
            link.call(WRITE, Question(bytes(100_000)))
            assert (await link.answer())[1].failure is None
    door._memory.give_back(2 * BUDGET_BYTES)


async def test_calls_and_requests_do_not_share_a_connection(
    link: BrokerLink, room: Room, door: KafkaDoor
) -> None:
    room.may_go.set()
    link.call(WRITE, Question())
    await link.answer()
    link.writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    assert await link.reader.read() == b""
    assert door._memory.held_bytes == 0


async def test_calls_in_flight_are_answered_at_a_stop(
    link: BrokerLink, room: Room, door: KafkaDoor
) -> None:
    link.call(WAIT, Question())
    number = link.call(WRITE, Question())
    await until(lambda: room.asked == 2)
    stopping = asyncio.create_task(door.stop())
    await until(lambda: room.forgotten == 1)
    # What comes now is not begun, and its broker learns that.
    late = link.call(WRITE, Question())
    refused, answer = await link.answer()
    assert refused == late
    assert answer.failure is not None
    assert answer.failure.is_untouched
    room.may_go.set()
    assert await link.answer() == (number, Answer(msgspec.Raw(b"\xc4\x00")))
    assert await link.reader.read() == b""
    await stopping
