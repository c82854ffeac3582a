"""Dead letters whose topic is led by other brokers than the messages that died."""

import asyncio
from typing import Any

from goqueue.broker.calls.calls import Untouched
from goqueue.model.errors import BrokerUnreachable, RequestTimedOut
from goqueue.model.queues.dead_letters import Redriven, StoredDeadLetter
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import settle_all
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.model.tracing.spans import Event, MessagePlace
from tests.callers import ANYONE
from tests.publishing import publish
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes

LETTERS = f"{TOPIC}.dlq"


PARTITIONS = 3


async def three(nodes: Nodes, **settings: str) -> list[RunningNode]:
    """Dead letters of each partition are led by another broker than the partition."""
    brokers = await nodes.start(1, 2, 3, **settings)
    await nodes.make_topic(PARTITIONS)
    ids = [1, 2, 3]
    await brokers[0].service.topics.create(
        ANYONE,
        NewTopic(
            name=LETTERS,
            assignments={
                index: tuple(ids[(index + 1 + n) % 3] for n in range(3))
                for index in range(PARTITIONS)
            },
        ),
    )
    await nodes.until(
        lambda: (
            all(
                all(broker.node.hosted.get(LETTERS, index) for index in range(PARTITIONS))
                for broker in brokers
            )
            and all(leader_of(nodes, LETTERS, index) for index in range(PARTITIONS))
        )
    )
    return brokers


def leader_of(nodes: Nodes, topic: str, index: int) -> RunningNode | None:
    for node in nodes.running.values():
        found = node.node.hosted.get(topic, index)
        if found is not None and found.led is not None:
            return node
    return None


async def receive(broker: RunningNode, count: int, topic: str = TOPIC) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        request = Receive(max_messages=10, start="earliest", wait_ms=20_000)
        found += await broker.service.queues.receive(ANYONE, "g", topic, request)
    return found


async def reject(broker: RunningNode, found: list[Delivery]) -> None:
    wanted = settle_all([each.receipt for each in found], AckAction.REJECT)
    await broker.service.queues.settle(ANYONE, "g", wanted)


async def letters(broker: RunningNode, count: int) -> list[StoredDeadLetter]:
    """Once there are as many; more would be found, too."""
    while True:
        found = await broker.service.queues.dead_letters(ANYONE, TOPIC, limit=100)
        if len(found) >= count:
            return found
        await asyncio.sleep(0.02)


async def die(broker: RunningNode) -> None:
    for index in range(PARTITIONS):
        await publish(broker.node, TOPIC, [NewRecord(value=b"%d" % index)], partition=index)
    await reject(broker, await receive(broker, PARTITIONS))


@with_nodes
async def test_dead_letters_are_listed_and_sent_back_at_any_broker(nodes: Nodes) -> None:
    brokers = await three(nodes)
    await die(brokers[0])
    for broker in brokers:
        found = await letters(broker, 3)
        assert sorted(each.record.value or b"" for each in found) == [b"0", b"1", b"2"]
        assert sorted(each.partition for each in found) == [0, 1, 2]
    assert await brokers[1].service.queues.redrive(ANYONE, TOPIC, limit=1) == Redriven(1, 0)
    assert len(await letters(brokers[2], 2)) == 2
    assert await brokers[2].service.queues.redrive(ANYONE, TOPIC) == Redriven(2, 0)
    assert await brokers[0].service.queues.redrive(ANYONE, TOPIC) == Redriven(0, 0)
    for broker in brokers:
        assert await broker.service.queues.dead_letters(ANYONE, TOPIC, limit=100) == []
    back = await receive(brokers[1], 3)
    assert sorted(each.record.value or b"" for each in back) == [b"0", b"1", b"2"]


@with_nodes
async def test_the_story_of_a_message_goes_on_with_its_letter_and_back(nodes: Nodes) -> None:
    brokers = await three(nodes, tracing__sampling__rate="1")
    await publish(brokers[0].node, TOPIC, [NewRecord(value=b"x")], partition=0)
    source, target = nodes.leader(0), leader_of(nodes, LETTERS, 0)
    outsider = next(broker for broker in brokers if broker not in (source, target))
    await reject(outsider, await receive(outsider, 1))
    await letters(outsider, 1)
    assert await outsider.service.queues.redrive(ANYONE, TOPIC) == Redriven(1, 0)
    found = await outsider.service.tracing.of_message(ANYONE, MessagePlace(TOPIC, 0, 0))
    [trace_id] = {span.trace_id for span in found.spans}
    told: set[str] = set()
    while not {Event.CONSUME_REJECTED, Event.DLQ_ROUTED, Event.DLQ_REDRIVEN} <= told:
        whole = await outsider.service.tracing.trace(ANYONE, trace_id)
        told = {span.event for span in whole.spans}
        await asyncio.sleep(0.01)
    assert {(TOPIC, 0), (LETTERS, 0)} <= {(span.topic, span.partition) for span in whole.spans}


@with_nodes
async def test_a_dead_letter_topic_is_made_on_first_need(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2, 3)
    await nodes.make_topic(3)
    await die(brokers[1])
    assert len(await letters(brokers[2], 3)) == 3


@with_nodes
async def test_a_copy_whose_answer_was_lost_is_not_written_twice(nodes: Nodes) -> None:
    brokers = await three(nodes)
    lost = 0
    for broker in brokers:
        served = broker.node.calls._served["dead_letters.bury"]

        async def lose(request: Any, run: Any = served.run) -> Any:
            nonlocal lost
            answer = await run(request)
            lost += 1
            if lost % 2:
                raise Untouched(BrokerUnreachable("the answer was lost"))
            return answer

        broker.node.calls._served["dead_letters.bury"] = served._replace(run=lose)
    await die(brokers[0])
    await nodes.until(lambda: lost >= 6)
    found = await letters(brokers[0], 3)
    await asyncio.sleep(0.2)
    assert len(await letters(brokers[0], 3)) == len(found) == 3
    assert sum(sum(broker.node.queues.dead_letters.written.values()) for broker in brokers) <= 3


@with_nodes
async def test_a_copy_that_is_asked_for_while_it_is_written_waits_for_it(nodes: Nodes) -> None:
    brokers = await three(nodes)
    target = leader_of(nodes, LETTERS, 0)
    assert target is not None
    room = target.node.queues.dead_letters
    requests: list[Any] = []
    run = target.node.calls._served["dead_letters.bury"].run

    async def note(request: Any) -> Any:
        requests.append(request)
        return await run(request)

    served = target.node.calls._served["dead_letters.bury"]
    target.node.calls._served["dead_letters.bury"] = served._replace(run=note)
    await publish(brokers[0].node, TOPIC, [NewRecord(value=b"x")], partition=0)
    await reject(brokers[0], await receive(brokers[0], 1))
    await letters(brokers[0], 1)
    [request] = requests
    # As if this broker had just become the leader.
    for place in list(room._copied):
        room.partition_lost(place)
    first, second = await asyncio.gather(room._bury_here(request), room._bury_here(request))
    assert (first, second) == (0, 0)
    again = [
        type(letter)(letter.id + b"!", letter.copy, letter.continued) for letter in request.letters
    ]
    other = type(request)(request.topic, request.index, again)
    first, second = await asyncio.gather(room._bury_here(other), room._bury_here(other))
    assert (first, second) == (1, 0)
    assert len(await letters(brokers[0], 2)) == 2


@with_nodes
async def test_a_copy_that_nobody_waited_for_is_found_by_who_asks_again(nodes: Nodes) -> None:
    brokers = await three(nodes)
    target = leader_of(nodes, LETTERS, 0)
    assert target is not None
    publishing = target.node.publishing
    store = publishing.store_led
    cut_short = 0

    async def store_and_be_cancelled(*args: Any) -> None:
        nonlocal cut_short
        await store(*args)
        cut_short += 1
        if cut_short == 1:
            raise RequestTimedOut("replicas take too long")

    publishing.store_led = store_and_be_cancelled  # type: ignore[method-assign,assignment]
    for value in (b"one", b"two"):
        await publish(brokers[0].node, TOPIC, [NewRecord(value=value)], partition=0)
        await reject(brokers[0], await receive(brokers[0], 1))
    while any(each.dying for each in await brokers[0].service.queues.describe(ANYONE, "g", TOPIC)):
        await asyncio.sleep(0.02)
    found = await letters(brokers[0], 2)
    assert sorted(each.record.value or b"" for each in found) == [b"one", b"two"]


@with_nodes
async def test_letters_are_written_once_over_the_death_of_their_leader(nodes: Nodes) -> None:
    brokers = await three(nodes)
    gone = leader_of(nodes, LETTERS, 0)
    source = nodes.leader(0)
    assert gone is not None
    assert source is not None
    assert gone is not source
    for index in range(3):
        await nodes.until_in_sync(1, 2, 3, index=index)
    count = 20
    records = [NewRecord(value=b"%d" % n) for n in range(count)]
    await publish(source.node, TOPIC, records, partition=0)
    found = await receive(source, count)
    for each in found[:10]:
        await reject(source, [each])
    dying = asyncio.create_task(nodes.die(gone.id))
    for each in found[10:]:
        await reject(source, [each])
    await dying
    kept = await letters(source, count)
    assert sorted(int(each.record.value or b"") for each in kept) == list(range(count))
    assert brokers


@with_nodes
async def test_letters_that_are_too_large_together_are_written_apart(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for number in range(4):
        record = NewRecord(value=b"%d" % number * 600_000)
        await publish(brokers[0].node, TOPIC, [record], partition=1)
    await reject(brokers[0], await receive(brokers[0], 4))
    found = await letters(brokers[2], 4)
    assert [(each.record.value or b"")[:1] for each in found] == [b"0", b"1", b"2", b"3"]
    assert {len(each.record.value or b"") for each in found} == {600_000}
