"""What one broker asks another one to do: where it is done, how often, what is told of failures."""

import asyncio
import struct
from typing import Final

import msgspec
import pytest

from goqueue.broker.calls import calls as calling
from goqueue.model.calls import CALL, CALL_API_KEY, FORGET, Answer, Call, Method
from goqueue.model.errors import (
    BrokerUnreachable,
    GoQueueError,
    InvalidRecord,
    NotLeader,
    RequestTimedOut,
    StateLoading,
    UnknownTopic,
)
from goqueue.model.groups.messages import GroupKind
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.publishing import Outcome
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

PLACE: Final = topic_partition(TOPIC, 0)


class Question(msgspec.Struct, frozen=True):
    text: str
    fails: bool = False


ECHO: Final = Method("test.echo", Question, str)
WAIT: Final = Method("test.wait", Question, str, waits=True)
WRITE: Final = Method("test.write", Question, str)
READ: Final = Method("test.read", Question, str, is_repeatable=True)


class Room:
    """Answers with its node's number and what it was asked; waits until it is let go."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.may_go = asyncio.Event()
        node.node.calls.serve(ECHO, self.echo)
        node.node.calls.serve(WAIT, self.wait)
        node.node.calls.serve(WRITE, self.wait)
        node.node.calls.serve(READ, self.wait)

    async def echo(self, question: Question) -> str:
        self.asked.append(question.text)
        if question.fails:
            raise InvalidRecord("no", 3, {3: "too long"})
        return f"{self.node.id}:{question.text}"

    async def wait(self, question: Question) -> str:
        self.asked.append(question.text)
        try:
            await self.may_go.wait()
        except asyncio.CancelledError:
            self.forgotten.append(question.text)
            raise
        return f"{self.node.id}:{question.text}"


async def rooms_of(nodes: Nodes) -> list[Room]:
    rooms = [Room(node) for node in await nodes.start(1, 2, 3)]
    await nodes.make_topic()
    await nodes.until(lambda: all(room.node.view().leader == 1 for room in rooms))
    return rooms


@with_nodes
async def test_a_call_is_carried_out_by_the_leader_alone(nodes: Nodes) -> None:
    rooms = await rooms_of(nodes)
    for room in rooms:
        answer = await room.node.node.calls.ask(ECHO, PLACE, Question("who"))
        assert answer == "1:who"
    assert [len(room.asked) for room in rooms] == [3, 0, 0]


@with_nodes
async def test_who_asks_is_not_ahead_of_who_answers(nodes: Nodes) -> None:
    """A topic that was made at one broker is known at the others when they are asked for it."""
    one, two, _ = await rooms_of(nodes)

    async def knows(question: Question) -> str:
        return str(question.text in one.node.node.image.topics)

    one.node.node.calls.serve(READ, knows)
    async with one.node.node._follower._applying:
        new = NewTopic(name="new", partitions=1)
        await BrokerService(two.node.node).topics.create(ANYONE, new)
        asking = asyncio.create_task(
            two.node.node.calls.ask_broker(READ, NodeId(1), Question("new"))
        )
        assert (await asyncio.wait((asking,), timeout=0.1))[0] == set()
    assert await asking == "True"


@with_nodes
async def test_a_broker_that_hears_nothing_answers_from_what_it_knows(nodes: Nodes) -> None:
    one, two, _ = await rooms_of(nodes)
    async with one.node.node._follower._applying:
        new = NewTopic(name="new", partitions=1)
        await BrokerService(two.node.node).topics.create(ANYONE, new)
        asked = two.node.node.calls.ask_broker(ECHO, NodeId(1), Question("who"))
        assert await asked == "1:who"


@with_nodes
async def test_an_error_arrives_as_it_was_raised(nodes: Nodes) -> None:
    _, two, _ = await rooms_of(nodes)
    with pytest.raises(InvalidRecord, match="no") as raised:
        await two.node.node.calls.ask(ECHO, PLACE, Question("x", fails=True))
    assert raised.value.record_index == 3
    assert raised.value.record_errors == {3: "too long"}
    with pytest.raises(UnknownTopic):
        await two.node.node.calls.ask(ECHO, topic_partition("none", 0), Question("x"))


@with_nodes
async def test_answers_come_in_any_order(nodes: Nodes) -> None:
    one, two, _ = await rooms_of(nodes)
    calls = two.node.node.calls
    waiting = [asyncio.create_task(calls.ask(WAIT, PLACE, Question(str(n)))) for n in range(50)]
    await nodes.until(lambda: len(one.asked) == 50)
    assert await calls.ask(ECHO, PLACE, Question("meanwhile")) == "1:meanwhile"
    one.may_go.set()
    assert await asyncio.gather(*waiting) == [f"1:{n}" for n in range(50)]


@with_nodes
async def test_who_asks_for_too_long_gives_up(nodes: Nodes) -> None:
    one, two, _ = await rooms_of(nodes)
    calls = two.node.node.calls
    with pytest.raises(RequestTimedOut):
        await calls.ask(WAIT, PLACE, Question("a"), timeout_s=0.05)
    # The leader need not go on with what only waits; what changes something it finishes.
    await nodes.until(lambda: one.forgotten == ["a"])
    with pytest.raises(RequestTimedOut):
        await calls.ask(WRITE, PLACE, Question("b"), timeout_s=0.05)
    asking = asyncio.create_task(calls.ask(WAIT, PLACE, Question("c")))
    await nodes.until(lambda: "c" in one.asked)
    asking.cancel()
    await nodes.until(lambda: one.forgotten == ["a", "c"])
    assert "b" in one.asked


@with_nodes
async def test_who_waits_for_a_connection_to_a_broker_that_goes_asks_the_next_one(
    nodes: Nodes,
) -> None:
    _, two, three = await rooms_of(nodes)
    never = asyncio.Event()

    async def hangs(*_: object) -> None:
        await never.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.calls.link.CallLink.open", hangs)
        calls = two.node.node.calls
        asking = asyncio.create_task(calls.ask(ECHO, PLACE, Question("x")))
        impatient = asyncio.create_task(calls.ask(ECHO, PLACE, Question("y"), patience_s=0))
        await nodes.until(lambda: 1 in calls._links._links)
    await nodes.die(1)
    with pytest.raises(BrokerUnreachable):
        await impatient
    assert await asking in ("2:x", "3:x")
    assert "x" in [*two.asked, *three.asked]


@with_nodes
async def test_a_connection_that_hangs_is_waited_for_as_long_as_an_answer(nodes: Nodes) -> None:
    _, two, _ = await rooms_of(nodes)

    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.calls.link.CallLink.open", hangs)
        calls = two.node.node.calls
        with pytest.raises(BrokerUnreachable, match=r"within 0\.05 s"):
            await calls.ask(ECHO, PLACE, Question("x"), timeout_s=0.05, patience_s=0)


@with_nodes
async def test_the_next_leader_is_waited_for_if_nothing_was_done(nodes: Nodes) -> None:
    _, two, three = await rooms_of(nodes)
    await nodes.die(1)
    for room in (two, three):
        # It does not know yet who leads, or asks one that is gone.
        assert (await room.node.node.calls.ask(ECHO, PLACE, Question("x"))) in ("2:x", "3:x")
    assert len(two.asked) + len(three.asked) == 2


@with_nodes
async def test_what_may_have_been_done_is_not_repeated(nodes: Nodes) -> None:
    one, two, three = await rooms_of(nodes)
    asking = asyncio.create_task(two.node.node.calls.ask(WRITE, PLACE, Question("once")))
    await nodes.until(lambda: one.asked == ["once"])
    await nodes.die(1)
    with pytest.raises(BrokerUnreachable):
        await asking
    assert two.asked == three.asked == []


@with_nodes
async def test_what_only_reads_is_asked_of_the_next_leader(nodes: Nodes) -> None:
    one, two, three = await rooms_of(nodes)
    asking = asyncio.create_task(two.node.node.calls.ask(READ, PLACE, Question("x")))
    await nodes.until(lambda: one.asked == ["x"])
    two.may_go.set()
    three.may_go.set()
    await nodes.die(1)
    assert await asking in ("2:x", "3:x")
    assert len(two.asked) + len(three.asked) == 1


@with_nodes
async def test_a_leader_of_another_epoch_does_nothing(nodes: Nodes) -> None:
    one, two, _ = await rooms_of(nodes)
    epoch = one.node.view().leader_epoch
    for other in (epoch - 1, epoch + 1):
        with pytest.raises(calling.Untouched) as refused:
            await two.node.node.calls._call(NodeId(1), ECHO, PLACE, other, Question("x"), 5.0)
        assert isinstance(refused.value.reason, NotLeader)
    with pytest.raises(calling.Untouched):
        await one.node.node.calls._call(NodeId(2), ECHO, PLACE, epoch, Question("x"), 5.0)
    assert one.asked == two.asked == []


@with_nodes
async def test_what_is_still_being_loaded_is_asked_for_again(nodes: Nodes) -> None:
    one, two, _ = await rooms_of(nodes)
    tries = 0

    async def loading(question: Question) -> str:
        nonlocal tries
        with calling.before_anything_is_done():
            tries += 1
            if tries % 3:
                raise StateLoading("not yet")
        return question.text

    one.node.node.calls.serve(ECHO, loading)
    for room in (one, two):
        assert await room.node.node.calls.ask(ECHO, PLACE, Question("x")) == "x"
    assert tries == 6
    with pytest.raises(StateLoading):
        await two.node.node.calls.ask(ECHO, PLACE, Question("x"), patience_s=0)


@with_nodes
async def test_lists_name_who_did_not_answer(
    nodes: Nodes,
) -> None:
    one, two, three = await rooms_of(nodes)

    async def broken(_: Question) -> str:
        raise GoQueueError("not here")

    two.node.node.calls.serve(ECHO, broken)
    found = await three.node.node.calls.gather(ECHO, Question("x"))
    assert found.answers == {1: "1:x", 3: "3:x"}
    assert {node: str(error) for node, error in found.failures.items()} == {2: "not here"}
    three.node.node.calls.serve(WAIT, three.echo)
    one.may_go.set()
    found = await three.node.node.calls.gather(WAIT, Question("y"), timeout_s=0.1)
    assert found.answers == {1: "1:y", 3: "3:y"}
    assert isinstance(found.failures[NodeId(2)], RequestTimedOut)


@with_nodes
async def test_bytes_that_are_no_call_do_no_harm(nodes: Nodes) -> None:
    one, _, _ = await rooms_of(nodes)
    reader, writer = await asyncio.open_connection(*one.node.door.address)

    async def sent(body: bytes, number: int, version: int = CALL) -> Answer:
        header = struct.pack(">hhih", CALL_API_KEY, version, number, -1)
        writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(length)
        assert struct.unpack_from(">i", frame) == (number,)
        return msgspec.msgpack.decode(frame[4:], type=Answer)

    encode = msgspec.msgpack.encode
    whole = encode(Call("test.echo", TOPIC, 0, 0, None, msgspec.Raw(encode({"text": "x"}))))
    assert (await sent(whole, 1)).failure is None
    for number, body in enumerate(
        (
            b"",
            b"\xc1",
            whole[:-3],
            encode(["test.echo", TOPIC, 0, 0, None, {"text": 5}]),
            encode(["test.echo", TOPIC, -1, 0, None, {"text": "x"}]),
            encode(["test.echo", TOPIC, 2**31, 0, None, {"text": "x"}]),
            encode(["no.such", TOPIC, 0, 0, None, {"text": "x"}]),
            encode({"method": "test.echo"}),
        ),
        2,
    ):
        failure = (await sent(body, number)).failure
        assert failure is not None
        assert failure.message
    # Of a call that is not there.
    header = struct.pack(">ihhih", 10, CALL_API_KEY, FORGET, 77, -1)
    writer.write(header)
    assert (await sent(whole, 90)).failure is None
    writer.write(struct.pack(">ihhih", 10, CALL_API_KEY, 9, 91, -1))
    assert await reader.read() == b""
    writer.close()
    assert one.asked == ["x", "x"]


@with_nodes
async def test_messages_are_published_at_any_broker(nodes: Nodes) -> None:
    started = await nodes.start(1, 2, 3)
    await nodes.make_topic(3)
    await nodes.until(lambda: all(n.view(i).leader > 0 for n in started for i in range(3)))
    for node in started:
        records = [NewRecord(value=b"%d" % node.id)] * 3
        outcomes: list[Outcome] = await node.service.publishing.publish(
            ANYONE, TOPIC, records, partitions=[0, 1, 2]
        )
        assert not [each for each in outcomes if isinstance(each, GoQueueError)]
    for index in range(3):
        leader = nodes.leader(index)
        assert leader is not None
        assert await leader.read_all(index) == [b"1", b"2", b"3"]


@with_nodes
async def test_a_broker_that_is_down_is_named_where_nobody_leads_in_its_place(
    nodes: Nodes,
) -> None:
    one, two, three = [Room(node) for node in await nodes.start(1, 2, 3)]
    await nodes.make_topic(partitions=2, replicas=[1])
    assert not (await two.node.node.calls.gather(ECHO, Question("all"))).unanswered
    await nodes.die(3)
    await nodes.until(lambda: two.node.node.calls.absent() == [3])
    assert not (await two.node.node.calls.gather(ECHO, Question("all"))).unanswered
    await nodes.die(1)
    await nodes.until(lambda: two.node.node.calls.absent() == [1, 3])
    await nodes.until(lambda: two.node.view().leader == NO_LEADER)
    found = await two.node.node.calls.gather(ECHO, Question("all"))
    # All that could be asked have answered.
    assert set(found.answers) == {2}
    assert not found.failures
    [unanswered] = found.unanswered
    assert unanswered.broker == 1
    assert unanswered.reason == "it is down, and nobody leads in its place: 2 partitions"
    assert (len(one.asked), len(two.asked), len(three.asked)) == (2, 3, 1)


@with_nodes
async def test_an_answer_that_cannot_be_read_is_a_failure_of_that_broker_alone(
    nodes: Nodes,
) -> None:
    """Of another release, which knows of kinds of things that this one does not."""
    one, two = await nodes.start(1, 2)

    async def later(_: Question) -> str:
        return "Later"

    asked = Method("test.kind", Question, GroupKind)
    one.node.calls.serve(asked, later)  # type: ignore[arg-type]
    two.node.calls.serve(asked, answer_kind)
    found = await two.node.calls.gather(asked, Question("x"))
    assert found.answers == {2: GroupKind.SHARE}
    assert "broker 1 answered to test.kind what cannot be read" in found.unanswered[0].reason


async def answer_kind(_: Question) -> GroupKind:
    return GroupKind.SHARE
